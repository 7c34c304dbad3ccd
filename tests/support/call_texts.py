"""Answers with calls, well-formed and not, in every style; what they say is known, or what must hold of any parse.

Letters of `PAYLOAD` stand for what a model says: no markup has one, so none may be lost, and none invented.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, Segment
from tailrace.service.parsing.tools import call_stage
from tests.support.calls import joined

__all__ = ["Call", "check_any_parse", "cut", "damaged", "fragments", "well_formed"]

PAYLOAD = "αβγδ"
Call = tuple[str, dict[str, object]]

_CALLS, _END_CALLS = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _END_CALL, _SEP = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_TOKENS = (_CALLS, _END_CALLS, _CALL, _END_CALL, _SEP)
_TEXTS = (*"αβγδ <{\n\t", '"', "\\", "😀", "\u2028", "</", "``", "<｜", "αβ γδ", "\n\n", ", ", "}", "]", "\x07", "é")


def _text(chance: random.Random) -> str:
    return "".join(chance.choice(_TEXTS) for _ in range(chance.randint(0, 12)))


def _value(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(5 if depth < 3 else 3)
    if kind < 2:
        return _text(chance)
    if kind == 2:
        return chance.choice((None, True, -1.5, 10**20, 0))
    if kind == 3:
        return [_value(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return {_text(chance): _value(chance, depth + 1) for _ in range(chance.randint(0, 3))}


def well_formed(chance: random.Random, style: str) -> tuple[str, str, list[Call]]:
    """An answer, the text that it says, and its calls."""
    said = "α" if chance.random() < 0.5 and style != "llama3" else ""
    calls: list[Call] = []
    for number in range(chance.randint(1, 3)):
        keys = {f"β{i}": _value(chance) for i in range(chance.randint(0, 3))}
        calls.append((f"get_{number}", keys))
    return said + _WRITERS[style](calls, bool(said)), said, calls


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_v3(calls: Sequence[Call], has_text: bool) -> str:
    written = [f"{_CALL}function{_SEP}{name}\n```json\n{_dump(arguments)}\n```{_END_CALL}" for name, arguments in calls]
    return _CALLS + "\n".join(written) + _END_CALLS


def _write_v31(calls: Sequence[Call], has_text: bool) -> str:
    return _CALLS + "".join(f"{_CALL}{name}{_SEP}{_dump(each)}{_END_CALL}" for name, each in calls) + _END_CALLS


def _dsml(block: str, space: str = "") -> Callable[[Sequence[Call], bool], str]:
    mark = f"｜DSML｜{space}"

    def parameter(name: str, value: object) -> str:
        is_string = isinstance(value, str)
        said = value if is_string else _dump(value)
        return f'<{mark}parameter name="{name}" string="{str(is_string).lower()}">{said}</{mark}parameter>\n'

    def write(calls: Sequence[Call], has_text: bool) -> str:
        invokes = [
            f'<{mark}invoke name="{name}">\n{"".join(parameter(*each) for each in arguments.items())}</{mark}invoke>'
            for name, arguments in calls
        ]
        return "\n\n" + "\n".join([f"<{mark}{block}>", *invokes, f"</{mark}{block}>"])

    return write


def _write_hermes(calls: Sequence[Call], has_text: bool) -> str:
    written = [f'<tool_call>\n{{"name": "{name}", "arguments": {_dump(each)}}}\n</tool_call>' for name, each in calls]
    return "\n" * has_text + "\n".join(written)


def _write_llama(calls: Sequence[Call], has_text: bool) -> str:
    return "; ".join(f'{{"name": "{name}", "parameters": {_dump(each)}}}' for name, each in calls)


_WRITERS: dict[str, Callable[[Sequence[Call], bool], str]] = {
    "deepseek_v3": _write_v3,
    "deepseek_v31": _write_v31,
    "deepseek_v32": _dsml("function_calls"),
    "deepseek_v4": _dsml("tool_calls"),
    "deepseek_v41": _dsml("calls", space=" "),
    "hermes": _write_hermes,
    "llama3": _write_llama,
}

_PLAIN_FRAGMENTS = ("αβ", "γδ", " ", "\n", "\n\n", "<", "</", "δ" * 250, "\r\n")
_V3_FRAGMENTS = (*_TOKENS, *_TOKENS, "function", "get", "\n```json\n", "\n```", "```", '{"a": 1}', "<｜tool▁", "｜>")
_JSON_FRAGMENTS = (
    *'{}[],:"\\',
    '{"name": "get", ',
    '"name": "αβ"',
    '"arguments": {"x": "βγ"}',
    '"arguments": "',
    ', "id": 1',
)
_FRAGMENTS: dict[str, Sequence[str]] = {
    "deepseek_v3": _V3_FRAGMENTS,
    "deepseek_v31": _V3_FRAGMENTS,
    "hermes": (
        "<tool_call>",
        "</tool_call>",
        "<tool_call>\n{",
        *_JSON_FRAGMENTS,
        "\\u",
        "d83d",
        "\\ude00",
        '\\"',
        "<tool",
    ),
    "llama3": ("<|python_tag|>", *_JSON_FRAGMENTS, '"parameters": {"x": ', "; ", '{"type": "function", ', "<|"),
}


def _dsml_fragments(space: str) -> Sequence[str]:
    opening, closing = f"<｜DSML｜{space}", f"</｜DSML｜{space}"
    tags = [
        f'{opening}invoke name="get">',
        f'{opening}invoke name="γ"/>',
        f'{opening}parameter name="β" string="true">',
    ]
    tags += [
        f'{opening}parameter name="β" string="false">',
        f"{closing}parameter>",
        f"{closing}invoke>",
        f"{opening}calls>",
    ]
    tags += [
        f"{closing}tool_calls>",
        f"{opening}function_calls>",
        opening,
        closing,
        f"{opening}invoke",
        ' name="γ',
        '"',
        ">",
    ]
    return (*tags, *tags, "｜DSML｜", "{", "}", "\\", "parameter", "/>")


def fragments(chance: random.Random, style: str) -> str:
    """Pieces of markup and of text, in no order."""
    known = _FRAGMENTS.get(style) or _dsml_fragments(" " if style == "deepseek_v41" else "")
    choices = (*known, *_PLAIN_FRAGMENTS)
    return "".join(chance.choice(choices) for _ in range(chance.randint(0, 30)))


def damaged(chance: random.Random, style: str) -> str:
    """A well-formed answer of which pieces are missing, doubled or strange."""
    answer = well_formed(chance, style)[0]
    for _ in range(chance.randint(1, 4)):
        begin = chance.randint(0, len(answer))
        end = begin + chance.randint(0, 8)
        piece = chance.choice(("", "", answer[begin:end] * 2, fragments(chance, style)[:20]))
        answer = answer[:begin] + piece + answer[end:]
    return answer[: chance.randint(0, len(answer))] if chance.random() < 0.3 else answer


def cut(chance: random.Random, answer: str) -> list[str]:
    longest, pieces, begin = chance.choice((1, 2, 5, 40)), [], 0
    while begin < len(answer):
        pieces.append(answer[begin : begin + chance.randint(1, longest)])
        begin += len(pieces[-1])
    return pieces


def check_any_parse(style: str, answer: str, pieces: Sequence[str]) -> None:
    """What holds of every answer: cuttings show nowhere, no markup comes out, nothing is lost and nothing invented."""
    whole = _Parse(style, [answer])
    one_by_one, in_pieces = _Parse(style, answer), _Parse(style, pieces)
    assert joined(one_by_one.segments) == joined(in_pieces.segments) == joined(whole.segments)
    assert in_pieces.held.items() <= one_by_one.held.items()
    assert max(one_by_one.held.values(), default=0) <= 1 << 17
    _check_order(whole.segments)
    for segment in whole.segments:
        is_answer = isinstance(segment, AnswerPiece)
        assert not any(marker in _said(segment) for marker in _hidden(style, is_answer)), segment
    said, written = _letters("".join(map(_said, whole.segments))), _letters(answer)
    assert said <= written
    num_calls = sum(isinstance(segment, CallBegins) for segment in whole.segments)
    assert written - said <= _letters(_may_be_lost(style, answer, num_calls))


class _Parse:
    """What came out, and how much was held at each place."""

    def __init__(self, style: str, pieces: Sequence[str]) -> None:
        stage = call_stage(style)
        self.segments: list[Segment] = []
        self.held: dict[int, int] = {}
        place = 0
        for piece in pieces:
            self.segments += stage.feed(piece)
            place += len(piece)
            self.held[place] = stage.num_held
        self.segments += stage.finish()
        assert stage.num_held == 0


def _said(segment: Segment) -> str:
    return segment.name if isinstance(segment, CallBegins) else segment[-1]


def _letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character in PAYLOAD)


def _check_order(segments: Sequence[Segment]) -> None:
    """Calls are numbered as they come, and only the last goes on."""
    num_calls = 0
    for segment in segments:
        if isinstance(segment, CallBegins):
            assert segment.number == num_calls
            num_calls += 1
        elif isinstance(segment, CallGoesOn):
            assert segment.number == num_calls - 1
            assert segment.arguments
        else:
            assert segment.text


def _hidden(style: str, is_answer: bool) -> Sequence[str]:
    """Markup that no segment has; arguments may speak of tags."""
    if style in ("deepseek_v3", "deepseek_v31"):
        return _TOKENS
    if not is_answer:
        return ()
    return {"hermes": ("<tool_call>", "</tool_call>"), "llama3": ("<|python_tag|>",)}.get(
        style, ("<｜DSML｜", "</｜DSML｜")
    )


def _may_be_lost(style: str, answer: str, num_calls: int) -> str:
    """What is in the markup itself: the type of a V3 call, other attributes of a tag, other members of an object."""
    if style == "deepseek_v3":
        return "".join(re.findall(f"{_CALL}(.*?){_SEP}", answer, re.DOTALL))
    if style == "deepseek_v31":
        return ""
    if style in ("hermes", "llama3"):
        return answer if num_calls else ""
    # Each place where a tag may begin: one that is none does not hide the next.
    return "".join(re.findall(r'(?=(</?｜DSML｜(?:[^">]|"[^"]*")*(?:>|\Z|")))', answer))
