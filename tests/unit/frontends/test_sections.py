"""Answers cut into sections: where one ends and the next begins, and whose the log probabilities are."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tailrace.frontends.sections import Section, SectionKind, Sections
from tailrace.service.api import CallDelta, ChoiceDelta, TextLogprob
from tests.support.scripted_service import call, finish, thought, token

REASONING, TEXT, CALL = SectionKind

Shown = tuple[SectionKind, str, str]


def logprob(text: str, *, is_reasoning: bool = False) -> TextLogprob:
    return TextLogprob(1, text, text.encode(), -0.5, is_reasoning=is_reasoning)


def sections_of(*deltas: ChoiceDelta) -> list[Section]:
    sections = Sections()
    for delta in deltas:
        sections.add(delta)
    return sections.so_far()


def shown(sections: Sequence[Section]) -> list[Shown]:
    return [(section.kind, section.name, section.text) for section in sections]


def test_reasoning_text_and_calls_are_sections_in_their_order() -> None:
    sections = sections_of(
        *(thought("Hm"), thought("m."), token("Let me "), token("see."), call(0, name="look"), call(0, '{"a"')),
        *(call(0, ": 1}"), call(1, name="wait"), token("There."), call(2, "{}", name="look"), finish()),
    )
    assert shown(sections) == [
        (REASONING, "", "Hmm."),
        (TEXT, "", "Let me see."),
        (CALL, "look", '{"a": 1}'),
        (CALL, "wait", ""),
        (TEXT, "", "There."),
        (CALL, "look", "{}"),
    ]
    assert [section.call_id for section in sections if section.kind is CALL] == ["call_0_0", "call_0_1", "call_0_2"]


def test_one_delta_may_have_all_of_it() -> None:
    calls = (CallDelta(0, "{", "call_a", "f"), CallDelta(0, "}"), CallDelta(1, "[]", "call_b", "g"))
    delta = ChoiceDelta(0, "text", reasoning="thought", calls=calls)
    assert shown(sections_of(delta)) == [
        (REASONING, "", "thought"),
        (TEXT, "", "text"),
        (CALL, "f", "{}"),
        (CALL, "g", "[]"),
    ]


def test_nothing_is_no_section() -> None:
    assert sections_of(token("", logprobs=(logprob("<x>"),)), finish()) == []


def test_log_probabilities_are_those_of_the_text() -> None:
    half, whole, end = logprob("\ufffd"), logprob("é"), logprob("")
    sections = sections_of(
        ChoiceDelta(0, "", logprobs=(logprob("Hm", is_reasoning=True),), reasoning="Hm"),
        token("", logprobs=(half,)),  # the first half of a character
        token("é", logprobs=(whole,)),
        token("", logprobs=(end,)),
        ChoiceDelta(0, "", logprobs=(logprob("{"),), calls=(CallDelta(0, "{", "call_a", "f"),)),
        token("", logprobs=(logprob("</call>"),)),
    )
    assert [section.logprobs for section in sections] == [[], [half, whole, end], []]


PIECES = st.tuples(st.sampled_from(SectionKind), st.text(min_size=1, max_size=4))


def deltas_of(pieces: Sequence[tuple[SectionKind, str]], cuts: Sequence[int]) -> list[ChoiceDelta]:
    """Every piece in two parts, of which one may be empty."""
    deltas, number = list[ChoiceDelta](), 0
    for (kind, text), cut in zip(pieces, cuts, strict=True):
        head, tail = text[:cut], text[cut:]
        if kind is CALL:
            deltas += [call(number, head, name="f"), call(number, tail)]
            number += 1
        else:
            deltas += [token(part) if kind is TEXT else thought(part) for part in (head, tail)]
    return deltas


@given(st.lists(PIECES, max_size=8), st.data())
def test_however_it_is_cut_the_sections_are_the_same(
    pieces: list[tuple[SectionKind, str]], data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, 4), min_size=len(pieces), max_size=len(pieces)))
    expected: list[list[object]] = []
    for kind, text in pieces:
        if expected and kind is not CALL and expected[-1][0] is kind:
            expected[-1][1] = f"{expected[-1][1]}{text}"
        else:
            expected.append([kind, text])
    sections = sections_of(*deltas_of(pieces, cuts))
    assert [[section.kind, section.text] for section in sections] == expected
