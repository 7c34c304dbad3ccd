"""Experts that are loaded when they are chosen: which ones are there, who has to go, and what becomes of failures."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable
from tailrace.ops.packed import PackedTensor, quantize_int8
from tailrace.ops.program import Routing
from tailrace.ops.source import WeightForm, source_of
from tailrace.records import ResidencyCounts
from tests.support.mixtures import MIXTURES
from tests.support.steps import Part, limits, step
from tests.support.tiny import random_ids, random_weights
from tests.unit.ops.test_cpu_experts import LIMITS, MOST_ROWS, Shape, program, weights

SHAPE = Shape(Routing(16, 2, "softmax", normalize=True), hidden=256, inner=256)
EXPERT_BYTES = 3 * 256 * 256 // 32 * (32 + 2)  # codes and a scale of each group


@dataclass
class Source:
    """Tensors of which some rows cannot be had from some time on, or not at once."""

    tensors: dict[str, PackedTensor]
    damaged: set[str] = field(default_factory=set)
    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __getitem__(self, name: str) -> PackedTensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def form(self, name: str) -> WeightForm:
        return source_of(self.tensors).form(name)

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        self.asked.append((name, begin))
        self.gate.wait(30)
        if name in self.damaged:
            raise CheckpointError(f"file.gguf: tensor {name!r} holds values that are no numbers")
        return source_of(self.tensors).part(name, begin, end)

    def release(self, name: str, begin: int, end: int) -> None:
        pass


def choosing(*choices: Sequence[int]) -> Source:
    """A mixture whose row n chooses those of `choices[n]`."""
    logits = np.zeros((MOST_ROWS, SHAPE.num_experts), np.float32)
    for row, experts in enumerate(choices):
        logits[row, list(experts)] = 8.0
    return Source(weights(SHAPE, logits, quantize_int8))


def load(source: Source, max_experts: float) -> CpuExecutable:
    of = replace(LIMITS, expert_bytes=int(max_experts * EXPERT_BYTES))
    return CpuBackend("portable").load(program(SHAPE), source, of)  # type: ignore[arg-type]  # a source is all it needs


def compute(executable: CpuExecutable, *rows: int) -> bytes:
    return executable.logits(step(LIMITS, Part(0, 0, rows))).tobytes()


def counts(executable: CpuExecutable) -> ResidencyCounts:
    assert executable.resident_experts is not None
    return executable.resident_experts.counts()


def loaded_experts(source: Source) -> list[int]:
    """In order, those that were asked for."""
    return [begin // SHAPE.inner for name, begin in source.asked if name == "gate"]


def test_nothing_of_an_expert_is_read_before_it_is_chosen() -> None:
    source = choosing((3, 7))
    executable = load(source, 16)
    before = loaded_experts(source)
    compute(executable, 0)
    executable.close()

    assert before == []
    assert sorted(loaded_experts(source)) == [3, 7]


def test_who_was_not_used_for_longest_has_to_go() -> None:
    source = choosing((0, 1), (2, 3), (0, 4), (1, 2))
    executable = load(source, 4)
    for row in (0, 1, 2, 3):
        compute(executable, row)
    found = counts(executable)
    executable.close()

    # (0, 1) and (2, 3) fill it; 4 takes the place of 1, and then 1 that of 3.
    assert sorted(loaded_experts(source)) == [0, 1, 1, 2, 3, 4]
    assert (found.hits, found.misses, found.evictions) == (2, 6, 2)
    assert found.num_resident == 4
    assert found.resident_bytes == 4 * EXPERT_BYTES


def test_a_step_that_chooses_more_than_the_cap_gets_them_all_and_they_go_with_the_next() -> None:
    source = choosing(*((2 * n, 2 * n + 1) for n in range(8)))
    executable = load(source, 2)
    compute(executable, *range(8))
    at_once = counts(executable)
    compute(executable, 0)
    after = counts(executable)
    executable.close()

    assert at_once.num_resident == 16
    assert after.num_resident == 2
    assert after.hits == 2


def test_of_layers_that_need_all_of_their_experts_in_turn_some_stay() -> None:
    """Whoever was not used for longest is just then who comes next: where all are used, others have to go."""
    config = replace(MIXTURES["all experts chosen"], num_layers=5)
    source = Source(random_weights(config))
    num_bytes = sum(source.tensors[name].values.nbytes for name in source if ".experts." in name)
    of = replace(limits(max_tokens=8, max_model_tokens=64, block_tokens=16), expert_bytes=num_bytes * 3 // 5)
    executable = CpuBackend().load(build_program(config), source, of)  # type: ignore[arg-type]  # as above
    inputs = step(of, Part(0, 0, random_ids(config, 8)))
    executable.logits(inputs)
    source.asked.clear()
    for _ in range(10):
        executable.logits(inputs)
    executable.close()

    assert len([name for name, _ in source.asked if name.endswith("gate")]) < 10 * 20  # of 25 in each step


def test_memory_of_those_that_go_is_given_back() -> None:
    choices = [(2 * n, 2 * n + 1) for n in range(8)]
    source = choosing(*choices)
    executable = load(source, 2)
    compute(executable, *range(8))
    before = _anonymous_kib()
    compute(executable, 0)
    after = _anonymous_kib()
    executable.close()

    given_back = (before - after) * 1024
    assert given_back > 0.8 * 14 * EXPERT_BYTES


@pytest.mark.parametrize("num_rows", [1, 8])
def test_a_damaged_expert_ends_the_step_that_needs_it_and_all_behind_it(num_rows: int) -> None:
    source = choosing((0, 1), *((n, n + 1) for n in range(2, 10)))
    executable = load(source, 16)
    compute(executable, 0)
    source.damaged.add("down")
    with pytest.raises(CheckpointError, match=r"file\.gguf: tensor 'down' holds values that are no numbers"):
        compute(executable, *range(1, 1 + num_rows))
    with pytest.raises(CheckpointError, match="tensor 'down'"):
        compute(executable, 0)
    executable.close()


def test_what_is_no_error_of_ours_is_told_too() -> None:
    source = choosing((0, 1))
    del source.tensors["down"]
    source.tensors["down"] = source.tensors["gate"]
    executable = load(source, 16)
    source.tensors["down"] = replace(source.tensors["gate"], values=np.zeros(3, np.int8))
    with pytest.raises(CheckpointError, match="needs an expert that cannot be loaded"):
        compute(executable, 0)
    executable.close()


def test_a_step_waits_for_its_experts() -> None:
    source = choosing((0, 1))
    executable = load(source, 16)
    source.gate.clear()
    done = threading.Event()
    computed: list[bytes] = []

    def run() -> None:
        computed.append(compute(executable, 0))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    while not source.asked:
        assert not done.wait(0.001)
    assert not done.wait(0.05)
    source.gate.set()
    assert done.wait(30)
    found, again = counts(executable), compute(executable, 0)
    executable.close()

    assert computed == [again]
    assert found.waited_s > 0.05


def test_somebody_hears_of_each_expert_that_has_come() -> None:
    executable = load(choosing((0, 1), (1, 2)), 16)
    heard: list[str] = []
    assert executable.resident_experts is not None
    executable.resident_experts.watch(lambda: heard.append("one more"))
    compute(executable, 0, 1)
    executable.close()

    assert len(heard) == 3


def test_threads_end_with_the_executable() -> None:
    before = threading.active_count()
    executable = load(choosing((0, 1)), 16)
    during = threading.active_count()
    executable.close()

    assert during == before + LIMITS.num_threads
    assert threading.active_count() == before


def test_threads_end_without_close_too() -> None:
    before = threading.active_count()
    executable = load(choosing((0, 1)), 16)
    compute(executable, 0)
    del executable

    assert threading.active_count() == before


def _anonymous_kib() -> int:
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0])
