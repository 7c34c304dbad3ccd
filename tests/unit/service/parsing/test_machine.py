"""The text machine: its stages together, what a prompt has opened, and stop strings, which only the answer has."""

from collections.abc import Iterable

from tailrace.service.answer_form import AnswerForm
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.parsing.machine import TextMachine
from tailrace.service.parsing.reasoning import ReasoningStage
from tailrace.service.parsing.segments import AnswerPiece, CallBegins, CallGoesOn, ReasoningPiece, Segment
from tailrace.service.parsing.tools import call_stage
from tailrace.service.stop import StopMatcher, StopStrings
from tests.support.bracketed_calls import BracketedCalls


def machine(*stops: str, opened: str = "", include_stop: bool = False) -> TextMachine:
    matcher = StopMatcher(StopStrings(stops), include_stop=include_stop) if stops else None
    reasoning = ReasoningStage(ReasoningTags(), ("[",))
    return TextMachine(reasoning, BracketedCalls(), matcher, opened=opened, call_characters=frozenset("[]"))


def written(segment: Segment) -> str:
    match segment:
        case ReasoningPiece(text):
            return f"r{text}"
        case AnswerPiece(text):
            return f"a{text}"
        case CallBegins(number, name):
            return f"c{number}:{name}"
        case CallGoesOn(number, arguments):
            return f"{number}{arguments}"


def joined(segments: Iterable[Segment]) -> list[str]:
    """Segments as short strings, those of one kind that follow each other together."""
    parts: list[str] = []
    for part in map(written, segments):
        if parts and parts[-1][0] == part[0] != "c":
            parts[-1] += part[1:]
        else:
            parts.append(part)
    return parts


def read(taken_apart: TextMachine, *pieces: str) -> list[str]:
    segments: list[Segment] = []
    for piece in pieces:
        segments += taken_apart.feed(piece)
        if taken_apart.matched is not None:
            return joined(segments)
    return joined(segments + taken_apart.finish())


def both_ways(text: str, *stops: str, opened: str = "", include_stop: bool = False) -> list[str]:
    """What comes out, which must be the same in one piece and character by character."""
    whole = read(machine(*stops, opened=opened, include_stop=include_stop), text)
    assert read(machine(*stops, opened=opened, include_stop=include_stop), *text) == whole
    return whole


def test_reasoning_answer_and_calls_come_in_their_order() -> None:
    assert both_ways("<think>\nhm</think>\n\nsee [f:{}][g:1] so") == [
        "rhm",
        "asee ",
        "c0:f",
        "0{}",
        "c1:g",
        "11",
        "a so",
    ]


def test_a_call_ends_reasoning() -> None:
    assert both_ways("<think>hm[f:{}]</think>") == ["rhm", "c0:f", "0{}", "a</think>"]


def test_without_stages_all_is_answer() -> None:
    plain = TextMachine()
    assert plain.feed("<think>") == [AnswerPiece("<think>")]
    assert plain.feed("") == []
    assert plain.finish() == []


def test_what_the_prompt_has_opened_is_known_and_does_not_come_out() -> None:
    assert both_ways("hm</think>so", opened="<think>\n") == ["rhm", "aso"]
    assert both_ways("\nso</think>", opened="</think>") == ["aso</think>"]
    assert both_ways("<think>hm", opened="</think>par") == ["a<think>hm"]


def test_what_of_it_is_undecided_is_decided_by_the_answer() -> None:
    assert both_ways("hink>hm", opened="<t") == ["rhm"]
    assert both_ways("able>", opened="<t") == ["aable>"]
    assert both_ways("", opened="<t") == []
    assert both_ways("ink>so", opened="<think>hm</th") == ["aso"]
    assert both_ways("en", opened="<think>hm</th") == ["ren"]
    assert both_ways("<think>hm", opened=" \n") == ["rhm"]


def test_a_call_that_the_prompt_has_begun_is_told() -> None:
    assert both_ways('"x"]', opened="</think>[f:") == ["c0:f", '0"x"']
    assert both_ways("", opened="</think>[f:") == ["c0:f"]
    assert both_ways('g:"x"]', opened="</think>[f") == ["c0:fg", '0"x"']


def test_a_stop_string_ends_the_answer() -> None:
    assert both_ways("one STOP two", "STOP") == ["aone "]
    assert both_ways("one STOP two", "STOP", include_stop=True) == ["aone STOP"]


def test_a_stop_string_is_met_in_the_answer_alone() -> None:
    assert both_ways("<think>aSb</think>c[S:dSe]fSg", "S") == ["raSb", "ac", "c0:S", "0dSe", "af"]


def test_a_stop_string_is_not_met_across_a_call() -> None:
    assert both_ways("S[f:x]T", "ST") == ["aS", "c0:f", "0x", "aT"]
    assert both_ways("S[f:x]T", "ST", include_stop=True) == ["aS", "c0:f", "0x", "aT"]


def test_a_stop_string_is_not_met_in_what_was_opened() -> None:
    assert both_ways("T", "ST", opened="</think>S") == ["aT"]
    assert both_ways("ST", "ST", opened="</think>S") == []


def test_a_stop_string_is_met_in_text_that_was_held_to_the_end() -> None:
    assert both_ways("<th", "th") == ["a<"]
    assert both_ways("a[ST", "ST") == ["aa"]


def test_no_stop_string_ends_in_free_text() -> None:
    taken_apart = machine("S")
    assert joined(taken_apart.feed("aS<", is_free=True)) == ["aaS<"]
    assert joined(taken_apart.feed("bS")) == ["ab"]
    assert taken_apart.matched == "S"


def test_free_text_stays_free_while_it_is_held() -> None:
    taken_apart = machine("S")
    assert taken_apart.feed("[S", is_free=True) == []
    assert joined(taken_apart.feed("]") + taken_apart.feed("S")) == ["aS"]
    assert taken_apart.matched == "S"


def test_places_count_what_is_decided() -> None:
    taken_apart = machine("ST", opened="<think>\n")
    for piece, certain, held in (
        ("hm", 2, 0),
        ("</", 2, 2),
        ("think>\n", 11, 0),
        ("aS", 12, 1),
        ("b[f", 15, 1),  # the bracket is markup
        (":x", 18, 0),
    ):
        taken_apart.feed(piece)
        assert (taken_apart.num_certain, taken_apart.num_held) == (certain, held)
    assert taken_apart.reasoning_end == len("hm</think>")


def test_the_end_of_reasoning_is_known_however_it_came() -> None:
    text = "a long thought, of many words</think>so"
    for pieces in ([text], text):
        taken_apart = machine(opened="<think>\n")
        read(taken_apart, *pieces)
        assert taken_apart.reasoning_end == text.index("so")


def test_at_a_stop_string_all_is_certain_up_to_it() -> None:
    for include_stop, certain in ((False, 4), (True, 6)):
        taken_apart = machine("ST", include_stop=include_stop)
        taken_apart.feed("a[b]STc")
        assert taken_apart.num_certain == certain


def test_what_stop_strings_hold_is_held_while_a_call_begins() -> None:
    taken_apart = machine("ST")
    assert joined(taken_apart.feed("aS[f")) == ["aa"]
    assert taken_apart.num_held == 3
    assert joined(taken_apart.feed(":")) == ["aS", "c0:f"]


def test_the_stage_of_calls_sees_text_that_may_matter_to_it() -> None:
    class Watched(BracketedCalls):
        def feed(self, text: str) -> list[Segment]:
            seen.append(text)
            return super().feed(text)

    for characters, expected in (
        ("[", ["a", "[f:x", "b", "]", "c", "e["]),
        ("", ["a", "b", "[f:x", "b", "]", "c", "d", "e["]),
    ):
        seen: list[str] = []
        taken_apart = TextMachine(calls=Watched(), call_characters=frozenset(characters))
        for piece in ("a", "b", "[f:x", "b", "]", "c", "d", "e["):
            taken_apart.feed(piece)
        assert seen == expected


def test_text_that_was_held_and_looks_like_the_last_is_not_taken_for_it() -> None:
    begin, separator = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
    taken_apart = TextMachine(calls=call_stage("deepseek_v31"), call_characters=frozenset("<"))
    pieces = (begin, "｜>", begin[:-2], "｜>", "f", separator, "x")  # no name ends with a beginning: it is answer
    assert read(taken_apart, *pieces) == ["a｜>", "c0:f", "0x"]


def test_a_stop_string_is_met_right_behind_a_call() -> None:
    make = machine_factory(None, "hermes", AnswerForm("hermes", has_tools=True), (":x",), include_stop=False)
    assert make is not None
    for arguments in ("{}", '"'):
        called = f'<tool_call>{{"name": "f", "arguments": {arguments}'
        ending = '"' * (arguments == '"')
        for pieces in ([f"{called} {ending}:x"], [called, " ", ending + ":x"], f"{called} {ending}:x"):
            taken_apart = make()
            read(taken_apart, *pieces)
            assert taken_apart.matched == ":x"


def test_reasoning_that_was_opened_may_be_over_before_the_answer_begins() -> None:
    assert machine(opened="<think>\n\n</think>\n\n").reasoning_end <= 0
    assert machine(opened="</think>").reasoning_end <= 0
    assert TextMachine().reasoning_end == 0
