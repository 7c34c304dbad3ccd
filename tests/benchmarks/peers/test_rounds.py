"""Who is measured when, with which prompts, and what becomes of an engine that fails."""

from collections.abc import Sequence

import pytest

from benchmarks.peers.engine import Load
from benchmarks.peers.prompts import PromptWriter
from benchmarks.peers.rounds import Contestant, run_rounds, turns
from tailrace.bench.server import Prompt
from tailrace.weights.load import open_checkpoint
from tests.benchmarks.peers.scripted import BY_NAME, ScriptedRunner

W1, W5 = BY_NAME["W1"], BY_NAME["W5"]


@pytest.fixture(scope="module")
def writer() -> PromptWriter:
    return PromptWriter(open_checkpoint(None))


def contestants(*names: str) -> list[Contestant]:
    return [Contestant(name, ScriptedRunner(name)) for name in names]


def order(field: Sequence[Contestant], num_rounds: int) -> list[str]:
    return [
        f"{turn.round_index}.{turn.workload.name}.{turn.contestant.name}" for turn in turns(field, [W1, W5], num_rounds)
    ]


def test_each_workload_meets_all_engines_before_the_next_one() -> None:
    assert order(contestants("us", "them"), 1) == ["0.W1.us", "0.W1.them", "0.W5.us", "0.W5.them"]


def test_each_round_begins_with_another_engine() -> None:
    firsts = [turn for turn in order(contestants("a", "b", "c"), 4) if ".W1." in turn][::3]
    assert firsts == ["0.W1.a", "1.W1.b", "2.W1.c", "3.W1.a"]


def test_an_engine_that_only_takes_time_plays_in_few_rounds() -> None:
    slow = Contestant("slow", ScriptedRunner("slow"), max_rounds=1)
    played = order([*contestants("us"), slow], 3)
    assert [turn for turn in played if turn.endswith("slow")] == ["0.W1.slow", "0.W5.slow"]
    assert len([turn for turn in played if turn.endswith("us")]) == 6


def prompts_taken(writer: PromptWriter, num_rounds: int) -> list[tuple[str, Load]]:
    taken: list[tuple[str, Load]] = []
    field = [Contestant(name, ScriptedRunner(name, taken)) for name in ("us", "them")]
    run_rounds(list(turns(field, [W1], num_rounds)), writer, seed=1, needed="us")
    return taken


def test_in_a_round_all_engines_get_the_same_prompts(writer: PromptWriter) -> None:
    (_, ours), (_, theirs) = prompts_taken(writer, 1)
    assert ours.prompts.prompts == theirs.prompts.prompts


def test_no_prompt_comes_again_in_another_round(writer: PromptWriter) -> None:
    (_, first), _, _, (_, second) = prompts_taken(writer, 2)
    both: list[Prompt] = [*first.prompts.prompts, *second.prompts.prompts]
    assert len({str(prompt) for prompt in both}) == len(both)


def test_there_is_a_prompt_for_each_request_and_for_each_stream_to_warm_up(writer: PromptWriter) -> None:
    load = writer.load(W1, seed=7)
    assert load.prompts.is_exact
    assert len(load.prompts.prompts) == W1.num_requests + W1.concurrency


def test_an_engine_that_fails_is_dropped_and_the_others_go_on(writer: PromptWriter) -> None:
    broken = ScriptedRunner("broken", fails_in=lambda load: load.workload is W5)
    field = [*contestants("us"), Contestant("broken", broken)]
    outcome = run_rounds(list(turns(field, [W1, W5], 2)), writer, seed=1, needed="us")
    assert outcome.dropped == {"broken": "W5: no token within 120 s"}
    assert len(broken.taken) == 2
    measured = [(measurement.engine, measurement.round_index) for measurement in outcome.measurements]
    assert measured == [("us", 0), ("broken", 0), ("us", 0), ("us", 1), ("us", 1)]


def test_an_interrupt_keeps_what_was_measured(writer: PromptWriter) -> None:
    def interrupt(_load: Load) -> bool:
        raise KeyboardInterrupt

    field = [*contestants("us"), Contestant("last", ScriptedRunner("last", fails_in=interrupt))]
    outcome = run_rounds(list(turns(field, [W1, W5], 1)), writer, seed=1, needed="us")
    assert outcome.is_interrupted
    assert [measurement.engine for measurement in outcome.measurements] == ["us"]


def test_without_us_there_is_nothing_to_compare(writer: PromptWriter) -> None:
    them = ScriptedRunner("them")
    us = ScriptedRunner("us", fails_in=lambda load: load.workload is W5)
    outcome = run_rounds(
        list(turns([Contestant("us", us), Contestant("them", them)], [W1, W5], 2)), writer, seed=1, needed="us"
    )
    assert outcome.dropped.keys() == {"us"}
    assert len(them.taken) == 1
