"""One choice: what each batch of tokens lets out, and how it ends."""

from collections.abc import Sequence

import pytest

from tailrace.service.answer_form import ALL_TEXT, AnswerForm
from tailrace.service.api import CallDelta, ChoiceDelta
from tailrace.service.choice import Choice
from tailrace.service.choice_rules import ChoiceRules
from tailrace.service.delta_writer import call_id
from tailrace.service.detokenize import TokenTexts
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.token_choice import TokenChoice
from tailrace.service.tokenizer import Tokenizer
from tailrace.types import FinishReason, TokenEvent, TokenLogprob
from tests.support.text import byte_level_tokenizer, events_of

EOS = 2


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return byte_level_tokenizer()


def _rules(
    tokenizer: Tokenizer,
    stop: Sequence[str] = (),
    *,
    include_stop: bool = False,
    skip: bool = True,
    stop_token_ids: tuple[int, ...] = (),
    min_tokens: int = 0,
) -> ChoiceRules:
    texts = TokenTexts(tokenizer.vocabulary, skip_special_tokens=skip)
    machine = machine_factory(None, "", ALL_TEXT, stop, include_stop=include_stop)
    return ChoiceRules(
        texts, machine=machine, include_stop=include_stop, stop_token_ids=stop_token_ids, min_tokens=min_tokens
    )


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """One token for each character."""
    return [tokenizer.encode(character, allow_control=False)[0] for character in text]


def _deltas(choice: Choice, events: Sequence[TokenEvent]) -> list[ChoiceDelta]:
    deltas: list[ChoiceDelta] = []
    for event in events:
        deltas += choice.feed([event])
        if choice.is_done:
            break
    return deltas


def _whole(tokenizer: Tokenizer, stop: Sequence[str], ids: Sequence[int]) -> ChoiceDelta:
    (delta,) = Choice(0, _rules(tokenizer, stop)).feed(events_of(ids))
    return delta


def test_text_comes_with_its_tokens(tokenizer: Tokenizer) -> None:
    ids = _ids(tokenizer, "abc")
    deltas = _deltas(Choice(4, _rules(tokenizer)), events_of(ids))
    assert [(delta.index, delta.text, delta.token_ids) for delta in deltas] == [
        (4, "a", (ids[0],)),
        (4, "b", (ids[1],)),
        (4, "c", (ids[2],)),
    ]
    assert [delta.finish_reason for delta in deltas] == [None, None, FinishReason.LENGTH]


def test_events_that_come_together_make_one_delta(tokenizer: Tokenizer) -> None:
    ids = _ids(tokenizer, "abc")
    (delta,) = Choice(0, _rules(tokenizer)).feed(events_of(ids))
    assert delta == ChoiceDelta(0, "abc", tuple(ids), finish_reason=FinishReason.LENGTH)


def test_the_token_that_ends_an_answer_is_not_text(tokenizer: Tokenizer) -> None:
    for skip in (True, False):
        choice = Choice(0, _rules(tokenizer, skip=skip))
        (delta,) = choice.feed(events_of([*_ids(tokenizer, "ab"), EOS], FinishReason.STOP))
        assert (delta.text, delta.finish_reason, delta.stop_reason) == ("ab", FinishReason.STOP, None)
        assert choice.num_tokens == 3


def test_a_stop_token_is_named_and_is_text_only_on_request(tokenizer: Tokenizer) -> None:
    ids = _ids(tokenizer, "ab.")
    for include_stop, text in ((False, "ab"), (True, "ab.")):
        rules = _rules(tokenizer, include_stop=include_stop, stop_token_ids=(ids[2],))
        (delta,) = Choice(0, rules).feed(events_of(ids, FinishReason.STOP))
        assert (delta.text, delta.stop_reason) == (text, ids[2])


def test_a_stop_token_that_is_the_last_by_length_is_text(tokenizer: Tokenizer) -> None:
    ids = _ids(tokenizer, "ab.")
    (delta,) = Choice(0, _rules(tokenizer, stop_token_ids=(ids[2],))).feed(events_of(ids))
    assert (delta.text, delta.stop_reason) == ("ab.", None)


def test_a_stop_string_ends_the_choice_and_is_named(tokenizer: Tokenizer) -> None:
    choice = Choice(0, _rules(tokenizer, ["cd"]))
    events = events_of(_ids(tokenizer, "abcdef"))
    deltas = _deltas(choice, events)
    assert "".join(delta.text for delta in deltas) == "ab"
    assert deltas[-1].finish_reason is FinishReason.STOP
    assert deltas[-1].stop_reason == "cd"
    assert choice.is_done
    assert choice.num_tokens == 4


def test_tokens_behind_a_stop_string_do_not_count_when_they_come_with_it(tokenizer: Tokenizer) -> None:
    choice = Choice(0, _rules(tokenizer, ["cd"]))
    choice.feed(events_of(_ids(tokenizer, "abcdef")))
    assert choice.num_tokens == 4


def test_a_stop_string_wins_over_an_end_by_length(tokenizer: Tokenizer) -> None:
    (delta,) = Choice(0, _rules(tokenizer, ["cd"])).feed(events_of(_ids(tokenizer, "abcd")))
    assert delta.finish_reason is FinishReason.STOP


def test_a_stop_string_of_a_replaced_character_is_found_at_the_end(tokenizer: Tokenizer) -> None:
    unfinished = next(i for i in range(tokenizer.vocab_size) if tokenizer.token_bytes(i) == b"\xf0\x9f")
    (delta,) = Choice(0, _rules(tokenizer, ["\ufffd"])).feed(events_of([unfinished]))
    assert (delta.text, delta.stop_reason) == ("", "\ufffd")


def test_tokens_wait_for_their_text(tokenizer: Tokenizer) -> None:
    ids = _ids(tokenizer, "abcx")
    choice = Choice(0, _rules(tokenizer, ["bcd"]))
    deltas = _deltas(choice, events_of(ids, with_logprobs=True))
    assert [(delta.text, delta.token_ids) for delta in deltas] == [("a", (ids[0],)), ("bcx", tuple(ids[1:]))]
    assert [[logprob.token_id for logprob in delta.logprobs] for delta in deltas] == [[ids[0]], ids[1:]]
    assert [logprob.logprob for delta in deltas for logprob in delta.logprobs] == [0.0, -1.0, -2.0, -3.0]


def test_tokens_of_a_split_character_leave_together(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("é", allow_control=False)
    assert len(ids) == 2
    deltas = _deltas(Choice(0, _rules(tokenizer)), events_of([*ids, *_ids(tokenizer, "a")]))
    assert [(delta.text, delta.token_ids) for delta in deltas] == [
        ("é", tuple(ids)),
        ("a", tuple(_ids(tokenizer, "a"))),
    ]


def test_tokens_of_the_stop_string_are_left_out(tokenizer: Tokenizer) -> None:
    by_text = {tokenizer.token_text(i): i for i in range(tokenizer.vocab_size)}
    hello, ll = by_text["hello"], by_text["ll"]
    (delta,) = Choice(0, _rules(tokenizer, ["oll"])).feed(events_of([hello, ll, ll], with_logprobs=True))
    assert delta.text == "hell"
    assert delta.token_ids == (hello,)
    assert [logprob.token for logprob in delta.logprobs] == ["hello"]


def test_tokens_before_a_stop_string_end_where_it_begins(tokenizer: Tokenizer) -> None:
    ids = _ids(tokenizer, "abcd")
    for deltas in (_deltas(Choice(0, _rules(tokenizer, ["cd"])), events_of(ids)), [_whole(tokenizer, ["cd"], ids)]):
        assert [i for delta in deltas for i in delta.token_ids] == ids[:2]


def test_log_probabilities_carry_text_bytes_and_alternatives(tokenizer: Tokenizer) -> None:
    a, b = _ids(tokenizer, "ab")
    half = tokenizer.encode("é", allow_control=False)[0]
    top = (TokenLogprob(b, -0.5), TokenLogprob(half, -3.0))
    (delta,) = Choice(0, _rules(tokenizer)).feed([TokenEvent("r", a, logprob=-1.0, top_logprobs=top)])
    logprob = delta.logprobs[0]
    assert (logprob.token, logprob.raw, logprob.logprob) == ("a", b"a", -1.0)
    assert [(other.token, other.raw, other.logprob) for other in logprob.top] == [
        ("b", b"b", -0.5),
        ("\ufffd", b"\xc3", -3.0),
    ]


def test_hidden_tokens_make_no_text_but_are_told(tokenizer: Tokenizer) -> None:
    deltas = _deltas(Choice(0, _rules(tokenizer)), events_of([0, *_ids(tokenizer, "a")]))
    assert [(delta.text, delta.token_ids[0]) for delta in deltas] == [("", 0), ("a", _ids(tokenizer, "a")[0])]


@pytest.mark.parametrize("reason", [FinishReason.ABORT, FinishReason.ERROR, FinishReason.LENGTH])
def test_an_end_without_a_token_lets_out_what_was_held(tokenizer: Tokenizer, reason: FinishReason) -> None:
    choice = Choice(0, _rules(tokenizer, ["abc"]))
    ids = _ids(tokenizer, "ab")
    assert not choice.feed([TokenEvent("r", ids[0]), TokenEvent("r", ids[1])])
    (delta,) = choice.feed([TokenEvent("r", None, finish_reason=reason, error="broken")])
    assert delta == ChoiceDelta(0, "ab", tuple(ids), finish_reason=reason, error="broken")


def test_cached_tokens_are_remembered(tokenizer: Tokenizer) -> None:
    choice = Choice(0, _rules(tokenizer))
    choice.feed(events_of(_ids(tokenizer, "a")))
    assert choice.prefix is not None
    assert choice.prefix.num_cached_tokens == 3


def _offsets(deltas: Sequence[ChoiceDelta]) -> list[int]:
    return [logprob.offset for delta in deltas for logprob in delta.logprobs]


def _token_of(tokenizer: Tokenizer, raw: bytes) -> int:
    return next(i for i in range(tokenizer.vocab_size) if tokenizer.token_bytes(i) == raw)


def _both_ways(tokenizer: Tokenizer, ids: Sequence[int], stop: Sequence[str] = ()) -> list[int]:
    """The offsets of an answer, which must be the same in one piece and token by token."""
    events = events_of(ids, with_logprobs=True)
    (whole,) = Choice(0, _rules(tokenizer, stop)).feed(events)
    streamed = _offsets(_deltas(Choice(0, _rules(tokenizer, stop)), events))
    assert streamed == _offsets([whole])
    return streamed


def test_a_token_tells_how_much_text_is_in_front_of_it(tokenizer: Tokenizer) -> None:
    hello = _token_of(tokenizer, b"hello")
    assert _both_ways(tokenizer, [*_ids(tokenizer, "ab"), hello, *_ids(tokenizer, "c")]) == [0, 1, 2, 7]


def test_alternatives_have_the_place_of_the_token_they_stand_beside(tokenizer: Tokenizer) -> None:
    a, b = _ids(tokenizer, "ab")
    events = [TokenEvent("r", a), TokenEvent("r", b, logprob=-1.0, top_logprobs=(TokenLogprob(a, -0.5),))]
    (delta,) = Choice(0, _rules(tokenizer)).feed(events)
    assert [other.offset for other in delta.logprobs[0].top] == [1]


def test_parts_of_one_character_share_its_place(tokenizer: Tokenizer) -> None:
    parts = [_token_of(tokenizer, raw) for raw in (b"\xf0\x9f", b"\x98", b"\x80!")]
    assert _both_ways(tokenizer, [*_ids(tokenizer, "a"), *parts, *_ids(tokenizer, "b")]) == [0, 1, 1, 1, 3]


def test_text_behind_a_character_that_never_ends_begins_after_its_replacement(tokenizer: Tokenizer) -> None:
    a, b = _ids(tokenizer, "ab")
    assert _both_ways(tokenizer, [a, _token_of(tokenizer, b"\xf0\x9f"), b, a]) == [0, 1, 2, 3]


def test_hidden_tokens_take_no_place(tokenizer: Tokenizer) -> None:
    assert _both_ways(tokenizer, [0, *_ids(tokenizer, "ab"), 0, *_ids(tokenizer, "c")]) == [0, 0, 1, 2, 2]


def test_places_do_not_depend_on_what_a_stop_string_holds_back(tokenizer: Tokenizer) -> None:
    assert _both_ways(tokenizer, _ids(tokenizer, "abcabd"), ["abd"]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("said", "min_tokens", "text", "stop"),
    [
        ("a.b.c", 0, "a", "."),
        ("a.b.c", 1, "a", "."),
        ("a.b.c", 2, "a.b", "."),  # the stop string of the second token is passed by
        ("a.b.c", 4, "a.b.c", None),
        ("a.b.c", 9, "a.b.c", None),
        ("xSTy", 2, "x", "ST"),  # it may begin before, and has to end behind
        ("xSTy", 3, "xSTy", None),
    ],
)
def test_a_stop_string_counts_once_it_ends_behind_the_least_number_of_tokens(
    tokenizer: Tokenizer, said: str, min_tokens: int, text: str, stop: str | None
) -> None:
    rules, events = _rules(tokenizer, [".", "ST"], min_tokens=min_tokens), events_of(_ids(tokenizer, said))
    for deltas in (_deltas(Choice(0, rules), events), Choice(0, rules).feed(events)):
        assert ("".join(delta.text for delta in deltas), deltas[-1].stop_reason) == (text, stop)


def test_a_stop_string_that_is_passed_by_holds_nothing_back(tokenizer: Tokenizer) -> None:
    deltas = _deltas(Choice(0, _rules(tokenizer, ["."], min_tokens=3)), events_of(_ids(tokenizer, "a.b")))
    assert [delta.text for delta in deltas] == ["a", ".", "b"]


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def _formed(
    tokenizer: Tokenizer, stop: Sequence[str] = (), *, opened: str = "", stop_token_ids: tuple[int, ...] = ()
) -> ChoiceRules:
    """Of an answer with reasoning, and calls in the style of Hermes."""
    form = AnswerForm("hermes", opened, has_tools=True)
    return ChoiceRules(
        TokenTexts(tokenizer.vocabulary, skip_special_tokens=True),
        machine=machine_factory(ReasoningTags(), "hermes", form, stop, include_stop=False),
        stop_token_ids=stop_token_ids,
        request_id="r",
    )


def _said(tokenizer: Tokenizer, text: str) -> list[int]:
    """Tags of reasoning are tokens, all else is a token for each character."""
    cut = tokenizer.encode(text, allow_control=True)
    tags = set(_tags(tokenizer))
    return [i for token in cut for i in ([token] if token in tags else _ids(tokenizer, tokenizer.token_text(token)))]


def _tags(tokenizer: Tokenizer) -> list[int]:
    return [tokenizer.vocabulary.added[tag] for tag in ("<think>", "</think>")]


def test_reasoning_and_answer_come_apart_and_tags_leave_without_text(tokenizer: Tokenizer) -> None:
    ids = _said(tokenizer, "<think>hm</think>so")
    deltas = _deltas(Choice(0, _formed(tokenizer)), events_of(ids))
    assert [(delta.reasoning, delta.text) for delta in deltas] == [
        ("", ""), ("h", ""), ("m", ""), ("", ""), ("", "s"), ("", "o"),
    ]  # fmt: skip
    assert [delta.token_ids for delta in deltas] == [(i,) for i in ids]


def test_events_that_come_together_are_reasoning_text_and_calls_of_one_delta(tokenizer: Tokenizer) -> None:
    ids = _said(tokenizer, f"<think>hm</think>so{CALL}")
    (delta,) = Choice(3, _formed(tokenizer)).feed(events_of(ids, FinishReason.LENGTH))
    call = CallDelta(0, '{"a": 1}', call_id("r", 3, 0), "f")
    assert delta == ChoiceDelta(3, "so", tuple(ids), finish_reason=FinishReason.LENGTH, reasoning="hm", calls=(call,))


def test_text_behind_a_call_is_a_delta_of_its_own_with_its_tokens(tokenizer: Tokenizer) -> None:
    ids = _said(tokenizer, f"{CALL}so")
    call, text = Choice(0, _formed(tokenizer)).feed(events_of(ids))
    assert (call.text, text.text, text.calls) == ("", "so", ())
    assert text.token_ids == tuple(ids[-2:])
    assert call.token_ids + text.token_ids == tuple(ids)


def test_tokens_of_the_reasoning_are_marked_and_counted(tokenizer: Tokenizer) -> None:
    for text, num_reasoning in (("<think>hm</think>so", 4), ("so", 0), ("</think>so", 0), ("<think>hm", 3)):
        events = events_of(_said(tokenizer, text), with_logprobs=True)
        streamed, whole = Choice(0, _formed(tokenizer)), Choice(0, _formed(tokenizer))
        for choice, deltas in ((streamed, _deltas(streamed, events)), (whole, whole.feed(events))):
            logprobs = [each for delta in deltas for each in delta.logprobs]
            assert [each.is_reasoning for each in logprobs] == [place < num_reasoning for place in range(len(events))]
            assert choice.num_reasoning_tokens == num_reasoning


def test_tokens_without_log_probabilities_are_counted_alike(tokenizer: Tokenizer) -> None:
    choice = Choice(0, _formed(tokenizer, opened="<think>\n"))
    _deltas(choice, events_of(_said(tokenizer, "hm</think>so")))
    assert choice.num_reasoning_tokens == 3


def test_the_place_of_a_token_counts_reasoning_and_markup(tokenizer: Tokenizer) -> None:
    events = events_of(_said(tokenizer, "<think>h</think>s"), with_logprobs=True)
    assert _offsets(_deltas(Choice(0, _formed(tokenizer)), events)) == [0, 7, 8, 16]


@pytest.mark.parametrize(
    ("said", "reason", "expected"),
    [
        (CALL, FinishReason.STOP, FinishReason.TOOL_CALLS),
        (CALL, FinishReason.LENGTH, FinishReason.LENGTH),
        (CALL, FinishReason.ABORT, FinishReason.ABORT),
        ("so", FinishReason.STOP, FinishReason.STOP),
        ("<tool_call>so", FinishReason.STOP, FinishReason.STOP),
        (CALL + "so END", FinishReason.STOP, FinishReason.STOP),  # by a stop string
    ],
)
def test_an_answer_that_calls_ends_with_its_calls(
    tokenizer: Tokenizer, said: str, reason: FinishReason, expected: FinishReason
) -> None:
    events = events_of([*_said(tokenizer, said), EOS], reason)
    for choice in (Choice(0, _formed(tokenizer, ["END"])), TokenChoice(0, _formed(tokenizer, ["END"]))):
        assert choice.feed(events)[-1].finish_reason is expected
    assert _deltas(Choice(0, _formed(tokenizer, ["END"])), events)[-1].finish_reason is expected


def test_a_stop_token_behind_calls_is_named(tokenizer: Tokenizer) -> None:
    rules = _formed(tokenizer, stop_token_ids=(EOS,))
    last = Choice(0, rules).feed(events_of([*_said(tokenizer, CALL), EOS], FinishReason.STOP))[-1]
    assert (last.finish_reason, last.stop_reason) == (FinishReason.TOOL_CALLS, EOS)


def test_tokens_wait_while_their_text_may_be_markup(tokenizer: Tokenizer) -> None:
    ids = _said(tokenizer, "a<tool>")
    deltas = _deltas(Choice(0, _formed(tokenizer)), events_of(ids))
    assert [(delta.text, len(delta.token_ids)) for delta in deltas] == [("a", 1), ("<tool>", 6)]
