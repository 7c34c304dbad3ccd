"""Complaints about bodies say what is wrong with them, not how the decoder noticed."""

import pytest
from msgspec import Struct

from tailrace.errors import InvalidRequest
from tailrace.frontends.fields import FieldRules
from tailrace.frontends.http.decode import BodyDecoder


class Body(Struct):
    prompt: str = ""


DECODER = BodyDecoder(Body, FieldRules({}, {}))


def complaint(body: bytes) -> str:
    with pytest.raises(InvalidRequest) as refused:
        DECODER.decode(body)
    assert refused.value.code == "invalid_json"
    return str(refused.value)


@pytest.mark.parametrize("body", [b"", b" \n"])
def test_an_empty_body_is_called_empty(body: bytes) -> None:
    assert complaint(body) == "the body is empty: send a JSON object"


@pytest.mark.parametrize(
    ("body", "half"),
    [
        (rb'{"prompt": "\ud800"}', r"\ud800"),
        (rb'{"prompt": "\uD8FFabc"}', r"\uD8FF"),
        (rb'{"prompt": "a\ud83d\u0041"}', r"\ud83d"),
        (rb'{"prompt": "\ud83d\ude00 \udc01 and more"}', r"\udc01"),
        (rb'{"prompt": "\\\udc00"}', r"\udc00"),
        (rb'{"\udfff": 1}', r"\udfff"),
    ],
)
def test_half_a_character_is_called_so(body: bytes, half: str) -> None:
    assert complaint(body).startswith(f"the body is not valid JSON: {half} is half a character; ")


@pytest.mark.parametrize(
    "body", [rb'{"prompt": "\ud83d\ude00', rb'{"prompt": "\\ud800', b'{"prompt": "abc', rb'{"prompt": "\u00']
)
def test_what_breaks_off_is_called_broken_off(body: bytes) -> None:
    assert "half a character" not in complaint(body)
    assert complaint(body).startswith("the body is not valid JSON: ")


def test_a_whole_character_in_two_escapes_is_taken() -> None:
    assert DECODER.decode(rb'{"prompt": "\ud83d\ude00\\ud800"}').prompt == "\U0001f600\\ud800"
