"""How tokens are spelled, so that none hides another."""

from tailrace.frontends.http.openai.logprobs import chat_logprobs, completion_logprobs
from tailrace.service.api import TextLogprob


def part(token_id: int, raw: bytes, logprob: float, top: tuple[TextLogprob, ...] = ()) -> TextLogprob:
    return TextLogprob(token_id, raw.decode("utf-8", "replace"), raw, logprob, top)


def top_of(entry: TextLogprob) -> list[tuple[str, float]]:
    (shown,) = completion_logprobs([entry]).top_logprobs
    return list(shown.items())


def test_parts_of_characters_are_spelled_as_bytes_and_keep_apart() -> None:
    best = (part(1, b"\xf0\x9f", -0.1), part(2, b"\xe2", -0.2), part(3, b" \xf0\x9f", -0.3))
    entry = part(1, b"\xf0\x9f", -0.1, best)
    assert top_of(entry) == [("bytes:\\xf0\\x9f", -0.1), ("bytes:\\xe2", -0.2), ("bytes:\\x20\\xf0\\x9f", -0.3)]
    assert completion_logprobs([entry]).tokens == ["bytes:\\xf0\\x9f"]


def test_the_chosen_token_comes_first_and_beside_the_best_when_it_is_none_of_them() -> None:
    best = (part(1, b"a", -0.1), part(2, b"b", -0.2))
    assert top_of(part(2, b"b", -0.2, best)) == [("b", -0.2), ("a", -0.1)]
    assert top_of(part(3, b"c", -5.0, best)) == [("c", -5.0), ("a", -0.1), ("b", -0.2)]


def test_tokens_with_one_text_are_all_shown_and_the_better_keeps_it() -> None:
    best = (part(1, b"a", -0.1), part(2, b"a", -0.2), part(3, b"a", -0.3))
    assert top_of(part(1, b"a", -0.1, best)) == [("a", -0.1), ("bytes:\\x61", -0.2)]


def test_the_replacement_character_itself_is_a_text() -> None:
    assert completion_logprobs([part(1, "\ufffd".encode(), -0.1)]).tokens == ["\ufffd"]


def test_chat_gives_the_bytes_beside_the_text() -> None:
    (shown,) = chat_logprobs([part(1, b"\xf0\x9f", -0.1)]).content
    assert shown.bytes == [0xF0, 0x9F]
