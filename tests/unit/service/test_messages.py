"""Messages with their content as one string."""

from typing import Any

import pytest

from tailrace.errors import InvalidRequest
from tailrace.service.messages import plain_message


def test_parts_are_joined_by_lines_and_all_else_is_kept() -> None:
    parts = [{"type": "text", "text": "one"}, "two"]
    assert plain_message({"role": "user", "content": parts, "name": "x"}, 0) == {
        "role": "user",
        "content": "one\ntwo",
        "name": "x",
    }
    assert plain_message({"role": "assistant", "content": None}, 0)["content"] is None


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("x", "messages[3]"),
        ({}, "messages[3].role"),
        ({"role": "user", "content": 5}, "messages[3].content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[3].content[0].type"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[3].content[0].text"),
    ],
)
def test_another_shape_is_refused_by_name(message: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plain_message(message, 3)
    assert caught.value.param == param
