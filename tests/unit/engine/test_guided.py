"""Guided sequences in the step loop, with a runner that draws what it is told to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tailrace.engine.guided import GuidedRunner
from tailrace.ops.api import NO_TOKEN
from tailrace.ops.reference_masks import ReferenceMasks
from tailrace.runtime.masks import MaskWriter
from tailrace.scheduler.plan import SampledToken, SequenceEntry, SequenceSlice, StepPlan, StepResult
from tailrace.types import Request, SamplingParams, TokenLogprob
from tests.support.guides import ScriptedGuide

EOS = 31
SAMPLING = SamplingParams(max_tokens=8)


@dataclass
class Drawing:
    """Draws `tokens`, a dictionary a step, and keeps what was allowed then, and what was corrected."""

    masks: ReferenceMasks
    rows: Mapping[str, int]
    tokens: list[dict[str, SampledToken]]
    allowed: list[dict[str, int]] = field(default_factory=list)  # the word of each row, once it holds
    corrected: list[tuple[str, int, int]] = field(default_factory=list)

    def run(self, plan: StepPlan) -> StepResult:
        words = {}
        for part in plan.slices:
            if part.request_id in self.rows and part.is_sampled:
                row = self.rows[part.request_id]
                self.masks._wait_for(row, part.start + part.num_tokens)
                words[part.request_id] = int(self.masks.rows[row, 0])
        self.allowed.append(words)
        drawn = self.tokens.pop(0)
        return StepResult(plan.step_id, tuple(drawn[part.request_id] for part in plan.slices if part.is_sampled))

    def correct(self, request_id: str, position: int, token_id: int) -> None:
        self.corrected.append((request_id, position, token_id))


def guided_runner(*steps: dict[str, int | SampledToken]) -> tuple[GuidedRunner, Drawing]:
    tokens = [
        {name: each if isinstance(each, SampledToken) else SampledToken(name, each) for name, each in step.items()}
        for step in steps
    ]
    masks, rows = ReferenceMasks(num_rows=4, vocab=32), dict[str, int]()
    drawing = Drawing(masks, rows, tokens)
    return GuidedRunner(drawing, MaskWriter(masks), rows, eos_ids=(EOS,)), drawing


def admit(runner: GuidedRunner, name: str, script: list[list[int]], max_length: int = 20) -> ScriptedGuide:
    guide = ScriptedGuide(script)
    runner.admit(Request(name, (1, 2, 3), SAMPLING), guide, max_length)
    return guide


def plan(
    step_id: int,
    *names: str,
    start: int,
    num_tokens: int = 1,
    entered: Sequence[str] = (),
    left: Sequence[str] = (),
    is_sampled: bool = True,
) -> StepPlan:
    entries = tuple(SequenceEntry(name, (1, 2, 3), 3, SAMPLING) for name in entered)
    slices = tuple(SequenceSlice(name, start, num_tokens, is_sampled) for name in names)
    return StepPlan(step_id, tuple(left), entries, (), slices)


def ids(result: StepResult) -> list[int]:
    return [token.token_id for token in result.sampled]


def word(*token_ids: int) -> int:
    return sum(1 << token_id for token_id in token_ids)


def test_the_mask_of_each_step_follows_from_what_was_drawn() -> None:
    runner, drawing = guided_runner({"a": 5, "b": 9}, {"a": 7, "b": 9}, {"a": EOS, "b": 9})
    guide = admit(runner, "a", [[5, 6], [7], [EOS]])
    results = [
        runner.run(plan(1, "a", "b", start=0, num_tokens=3, entered=["a", "b"])),
        runner.run(plan(2, "a", "b", start=3)),
        runner.run(plan(3, "a", "b", start=4)),
    ]

    assert [ids(result) for result in results] == [[5, 9], [7, 9], [EOS, 9]]
    assert drawing.allowed == [{"a": word(5, 6)}, {"a": word(7)}, {"a": word(EOS)}]  # b has no row
    assert guide.taken == [5, 7, EOS]
    assert drawing.corrected == []
    runner.close()


def test_the_first_mask_is_written_while_the_prompt_is_computed() -> None:
    runner, drawing = guided_runner({}, {"a": 5})
    admit(runner, "a", [[5]])
    runner.run(plan(1, "a", start=0, num_tokens=2, entered=["a"], is_sampled=False))
    drawing.masks._wait_for(drawing.rows["a"], 3)  # of the first token behind the prompt
    runner.run(plan(2, "a", start=2))

    assert drawing.allowed == [{}, {"a": word(5)}]
    runner.close()


def test_another_token_than_was_drawn_is_told_to_the_runner_and_to_the_scheduler() -> None:
    runner, drawing = guided_runner({"a": 6}, {"a": 8})
    admit(runner, "a", [[5, 6], [7, 8]], max_length=5)  # as long as the script: it closes from the first token on

    assert ids(runner.run(plan(1, "a", start=0, num_tokens=3, entered=["a"]))) == [5]
    assert ids(runner.run(plan(2, "a", start=3))) == [7]
    assert drawing.corrected == [("a", 3, 5), ("a", 4, 7)]
    runner.close()


@pytest.mark.parametrize(("known", "logprob"), [((TokenLogprob(5, -1.5),), -1.5), ((TokenLogprob(9, -1.5),), -9999.0)])
def test_another_token_has_its_own_log_probability(known: tuple[TokenLogprob, ...], logprob: float) -> None:
    runner, _ = guided_runner({"a": SampledToken("a", 6, -0.25, known)})
    admit(runner, "a", [[5, 6]], max_length=4)
    result = runner.run(plan(1, "a", start=0, num_tokens=3, entered=["a"]))

    assert result.sampled == (SampledToken("a", 5, logprob, known),)
    runner.close()


@pytest.mark.parametrize("drawn", [NO_TOKEN, 30])
def test_a_sequence_that_cannot_go_on_is_a_fault_and_the_others_go_on(drawn: int) -> None:
    runner, _ = guided_runner({"a": drawn, "b": 9, "c": 5})
    admit(runner, "a", [[5], [7]])
    admit(runner, "c", [[5], [7]])
    result = runner.run(plan(1, "a", "b", "c", start=0, num_tokens=3, entered=["a", "b", "c"]))

    assert [token.request_id for token in result.sampled] == ["a", "b", "c"]  # a token for each, as was planned
    assert list(runner.take_faults()) == ["a"]
    assert runner.take_faults() == {}
    runner.close()


def test_a_guide_that_breaks_ends_its_own_request_and_no_other() -> None:
    class Panic(BaseException):
        """What libraries in Rust raise: no Exception."""

    class Breaking(ScriptedGuide):
        def offer(self, token_id: int, num_left: int) -> int:
            raise Panic

    runner, _ = guided_runner({"a": 5, "b": 9})
    runner.admit(Request("a", (1, 2, 3), SAMPLING), Breaking([[5]]), 20)
    result = runner.run(plan(1, "a", "b", start=0, num_tokens=3, entered=["a", "b"]))

    assert [token.request_id for token in result.sampled] == ["a", "b"]
    assert "its guide failed; see the server's log" in runner.take_faults()["a"]
    runner.close()


def test_a_mask_that_cannot_be_written_says_why() -> None:
    runner, drawing = guided_runner({"a": NO_TOKEN})
    admit(runner, "a", [["no number"]])  # type: ignore[list-item]  # a fault of the guide
    runner.run(plan(1, "a", start=0, num_tokens=3, entered=["a"]))

    assert drawing.allowed == [{"a": 0}]
    assert "cannot follow its format any further" in runner.take_faults()["a"]
    runner.close()


def test_a_preempted_sequence_goes_on_where_it_was_in_another_row() -> None:
    runner, drawing = guided_runner({"a": 5}, {"b": 9}, {"a": 7})
    admit(runner, "a", [[5], [7], [8]])
    runner.run(plan(1, "a", start=0, num_tokens=3, entered=["a"]))
    first_row = drawing.rows["a"]
    runner.run(plan(2, "b", start=0, num_tokens=3, entered=["b"], left=["a"]))
    assert dict(drawing.rows) == {}
    runner.run(plan(3, "a", start=0, num_tokens=4, entered=["a"]))

    assert drawing.allowed == [{"a": word(5)}, {}, {"a": word(7)}]
    assert drawing.rows["a"] != first_row
    runner.close()


def test_rows_come_back_however_often_sequences_come_and_go() -> None:
    num_rounds = 20  # there are four rows
    steps: list[dict[str, int | SampledToken]] = [{str(n): 5} for n in range(num_rounds)]
    runner, drawing = guided_runner(*steps)
    for n in range(num_rounds):
        admit(runner, str(n), [[5], [7]])
        left = [str(n - 1)] if n else []
        runner.run(plan(n, str(n), start=0, num_tokens=3, entered=[str(n)], left=left))
        runner.ended(str(n))

    assert runner.num_guided == 0
    assert list(drawing.rows) == [str(num_rounds - 1)]  # until the plan that says it has left
    runner.close()


def test_an_ended_sequence_is_not_offered_what_was_drawn_for_it() -> None:
    runner, _ = guided_runner({"a": 5}, {"a": 7})
    guide = admit(runner, "a", [[5], [7]])
    runner.run(plan(1, "a", start=0, num_tokens=3, entered=["a"]))
    runner.ended("a")
    runner.run(plan(2, "a", start=3))  # it was aborted while this was computed

    assert guide.taken == [5]
    runner.close()
