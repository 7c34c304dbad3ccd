"""What the CPU back end tells of stages that it fuses, and of those that have to wait."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Timer

import pytest

from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, CpuExecutable
from tailrace.ops.packed import PackedTensor, quantize_int8
from tailrace.ops.source import WeightForm, source_of
from tailrace.types import OpTime
from tests.support.op_costs import Kept, SlowStep, slow_costs
from tests.support.steps import Part, limits, sampling, step
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, random_weights

LIMITS = replace(limits(max_tokens=32, max_model_tokens=64, block_tokens=16), num_threads=2)
ONE_ROW = step(LIMITS, Part(0, 20, [3]))


def timed(executable: CpuExecutable) -> dict[str, OpTime]:
    _, ops = executable.run_timed(ONE_ROW, sampling(1))
    return {op.name: op for op in ops}


def test_what_is_done_in_the_time_of_another_op_is_told_with_it() -> None:
    """One row's norms are left to whoever multiplies with them, its queries and keys are turned where it attends."""
    config = CONFIGS["plain"]
    executable = CpuBackend().load(build_program(config), random_weights(config, quantize_int8), LIMITS)
    ops = timed(executable)
    position_bytes = 2 * 2 * 16 * 2
    kept = Kept(dict.fromkeys(build_program(config).weights, 0.0), [position_bytes])
    tables = ONE_ROW.block_tables[0].tolist()
    expected = slow_costs(config, SlowStep([(20, 1, tables)], LIMITS.block_tokens, 1), kept)

    assert "norm" not in ops
    assert ops["rope"].num_bytes == 0  # the angles
    assert ops["attention"].num_bytes == expected["attention"][0] + expected["rope"][0]
    assert ops["qkv"].num_bytes == config.num_layers * (4 * 64 + 8 * 16 * 2 * (32 + 2))  # 4 + 2 + 2 heads, 64 columns
    assert ops["head"].num_bytes == 4 * 64 + 80 * 2 * (32 + 2)  # 77 tokens in tiles of 16


@dataclass
class Held(Mapping[str, PackedTensor]):
    """Tensors of which those in `held` are given out only once the gate is open."""

    tensors: Mapping[str, PackedTensor]
    held: str
    gate: threading.Event = field(default_factory=threading.Event)

    def form(self, name: str) -> WeightForm:
        return source_of(dict(self.tensors)).form(name)

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        assert self.held not in name or self.gate.wait(30)
        return source_of(dict(self.tensors)).part(name, begin, end)

    def release(self, name: str, begin: int, end: int) -> None:
        pass

    def __getitem__(self, name: str) -> PackedTensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


@pytest.mark.parametrize("held", ["layers.1.o", "layers.1.experts"])
def test_waiting_for_weights_and_experts_is_told_apart(held: str) -> None:
    config = DEEPSEEK_CONFIGS["experts"]
    weights = Held(random_weights(config), held)
    of = replace(LIMITS, expert_bytes=1 << 20) if "experts" in held else LIMITS
    packed = CpuBackend().lay_out(build_program(config), weights, of)
    packed.place(is_shared=False)
    filling = threading.Thread(target=packed.fill)
    filling.start()
    executable = packed.start()
    opening = Timer(0.1, weights.gate.set)
    opening.start()
    first, second = timed(executable), timed(executable)
    for thread in (opening, filling):
        thread.join()
    executable.close()

    assert first["waiting"].seconds > 0
    assert "waiting" not in second
    del first["waiting"]
    assert {name: op.num_bytes for name, op in first.items()} == {name: op.num_bytes for name, op in second.items()}
