"""Which engines take part, and what becomes of those that cannot."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import chosen_workloads, engines, parse_arguments, prepare
from benchmarks.peers.engine import Description, EngineUnavailable
from benchmarks.peers.http_server import HttpServer
from benchmarks.peers.llamacpp import LlamaCpp
from benchmarks.peers.ours import Ours
from benchmarks.peers.vllm_serve import VllmServe
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.benchmarks.peers.scripted import ScriptedRunner


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint(None)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "peers")


@dataclass(frozen=True)
class ScriptedEngine:
    name: str
    reason: str | None = None
    max_rounds: int | None = None

    def prepare(self) -> tuple[Description, ScriptedRunner]:
        if self.reason:
            raise EngineUnavailable(self.reason)
        return Description(f"{self.name} 1.0", "int4", "-t 2"), ScriptedRunner(self.name)


def test_a_peer_that_cannot_be_built_is_left_out_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [ScriptedEngine("us"), ScriptedEngine("broken", "no compiler"), ScriptedEngine("slow", max_rounds=1)]
    descriptions, contestants, skipped = prepare(wanted)
    assert skipped == {"broken": "no compiler"}
    assert [(contestant.name, contestant.max_rounds) for contestant in contestants] == [("us", None), ("slow", 1)]
    assert descriptions["us"] == Description("us 1.0", "int4", "-t 2")
    assert "left out: broken: no compiler" in capsys.readouterr().err


def test_without_a_choice_everyone_takes_part_and_we_come_first(workshop: Workshop, checkpoint: Checkpoint) -> None:
    names = [engine.name for engine in engines(parse_arguments([]), workshop, checkpoint)]
    assert names == ["tailrace", "llama.cpp", "openvino-int4", "openvino-int8", "transformers", "vllm"]


def test_those_chosen_take_part(workshop: Workshop, checkpoint: Checkpoint) -> None:
    arguments = parse_arguments(["--peers", "openvino-int8", "llama.cpp"])
    assert [engine.name for engine in engines(arguments, workshop, checkpoint)] == [
        "tailrace",
        "llama.cpp",
        "openvino-int8",
    ]


def test_a_file_is_run_by_whoever_runs_it_as_it_is_under_loads_for_large_models(
    workshop: Workshop, checkpoint: Checkpoint
) -> None:
    arguments = parse_arguments(["--model", "large.gguf"])
    ours, peer = engines(arguments, workshop, checkpoint)
    assert (ours.name, peer.name) == ("tailrace", "llama.cpp")
    assert isinstance(ours, Ours)
    assert isinstance(peer, LlamaCpp)
    assert (ours.file, peer.file, peer.num_slots) == (Path("large.gguf"), Path("large.gguf"), 8)
    assert [workload.name for workload in chosen_workloads(arguments)] == ["L1", "L2"]


def test_no_path_of_this_machine_is_among_our_flags(workshop: Workshop, checkpoint: Checkpoint) -> None:
    ours, _ = engines(parse_arguments(["--model", "/some/where/large.gguf"]), workshop, checkpoint)
    description, runner = ours.prepare()
    assert description.flags == ""
    assert isinstance(runner, HttpServer)
    assert "/some/where/large.gguf" in runner.command.words(80)


def test_workloads_can_be_chosen() -> None:
    assert [one.name for one in chosen_workloads(parse_arguments(["--workloads", "W4", "W1"]))] == ["W1", "W4"]
    assert [one.name for one in chosen_workloads(parse_arguments([]))] == ["W1", "W2", "W3", "W4", "W5"]


@pytest.mark.parametrize(
    "words",
    [
        ["--peers", "nobody"],
        ["--workloads", "W9"],
        ["--workloads", "L1"],
        ["--peers", "vllm", "--model", "large.gguf"],
        ["--workloads", "W1", "--model", "large.gguf"],
    ],
)
def test_a_choice_that_is_none_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(words)
    assert f"invalid choice: '{words[1]}'" in capsys.readouterr().err


def test_our_version_names_the_arguments_we_are_served_with(workshop: Workshop, checkpoint: Checkpoint) -> None:
    ours = engines(parse_arguments(["--serve", "--chunk-tokens 32", "--peers", "vllm"]), workshop, checkpoint)[0]
    description, _ = ours.prepare()
    assert description.flags == "--chunk-tokens 32"
    assert description.weights == "F32, Q4_1, Q8_0"


def test_vllm_is_never_installed_only_found(workshop: Workshop, checkpoint: Checkpoint, tmp_path: Path) -> None:
    missing = VllmServe(workshop, Weights(workshop, checkpoint), str(tmp_path / "vllm"))
    with pytest.raises(EngineUnavailable, match="vllm' is not installed"):
        missing.prepare()
    assert list(tmp_path.iterdir()) == []
