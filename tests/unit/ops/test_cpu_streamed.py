"""Weights that are read while the program already runs, by a thread or another process, or that lie in a file."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError
from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend, CpuPackedProgram
from tailrace.ops.packed import PackedTensor, quantize_int4
from tailrace.ops.source import WeightForm, WeightSource, source_of
from tests.support.killed import forked
from tests.support.steps import limits, teacher_forced
from tests.support.tiny import DEEPSEEK_CONFIGS, random_ids, random_weights

LIMITS = replace(limits(max_tokens=32, max_model_tokens=64, block_tokens=16), num_threads=2)


@dataclass
class Held(Mapping[str, PackedTensor]):
    """Tensors, matrices among which are given out only once `gate` is open."""

    tensors: Mapping[str, PackedTensor]
    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    damaged: str | None = None

    @property
    def _source(self) -> WeightSource:
        return source_of(dict(self.tensors))

    def form(self, name: str) -> WeightForm:
        return self._source.form(name)

    def part(self, name: str, begin: int, end: int) -> PackedTensor:
        if len(self.tensors[name].shape) == 2:
            assert self.gate.wait(30)
            self.asked.append(name)
        if name == self.damaged:
            raise CheckpointError(f"{name} is damaged")
        return self._source.part(name, begin, end)

    def release(self, name: str, begin: int, end: int) -> None:
        pass

    def __getitem__(self, name: str) -> PackedTensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


CONFIG = DEEPSEEK_CONFIGS["latent"]
IDS = random_ids(CONFIG, 40)


def laid_out(weights: Mapping[str, PackedTensor]) -> CpuPackedProgram:
    return CpuBackend().lay_out(build_program(CONFIG), weights, LIMITS)


def logits(packed: CpuPackedProgram) -> NDArray[np.float32]:
    executable = packed.start()
    try:
        return teacher_forced(executable, LIMITS, IDS, chunk_tokens=16)
    finally:
        executable.close()


@pytest.fixture(scope="module")
def weights() -> Mapping[str, PackedTensor]:
    return random_weights(CONFIG, quantize_int4)


@pytest.fixture(scope="module")
def expected(weights: Mapping[str, PackedTensor]) -> NDArray[np.float32]:
    return logits(CpuBackend().pack(build_program(CONFIG), weights, LIMITS))


def test_a_step_waits_for_its_weights_and_then_gives_the_same_bits(
    weights: Mapping[str, PackedTensor], expected: NDArray[np.float32]
) -> None:
    held = Held(weights)
    packed = laid_out(held)
    packed.place(is_shared=True)
    with ThreadPoolExecutor(2) as threads:
        computing = threads.submit(logits, packed)
        filling = threads.submit(packed.fill)
        time.sleep(0.3)
        assert not computing.done(), "there was nothing to compute with"
        held.gate.set()
        filling.result(30)
        assert np.array_equal(computing.result(30), expected)
    assert packed.is_whole
    wanted = [name for name in build_program(CONFIG).weights if len(weights[name].shape) == 2]
    order = list(dict.fromkeys(held.asked))
    assert sorted(order) == sorted(wanted)
    # In the order of layers, but for the few that are on their way at once.
    assert max(abs(order.index(name) - place) for place, name in enumerate(wanted)) <= 2 * LIMITS.num_threads


def test_another_process_may_read_them(weights: Mapping[str, PackedTensor], expected: NDArray[np.float32]) -> None:
    packed = laid_out(weights)
    packed.place(is_shared=True)
    loader = forked(packed.fill)
    assert np.array_equal(logits(packed), expected)
    loader.join(30)
    assert loader.exitcode == 0
    assert packed.is_whole


def test_they_may_be_those_of_a_file(
    weights: Mapping[str, PackedTensor], expected: NDArray[np.float32], tmp_path: Path
) -> None:
    first = CpuBackend().pack(build_program(CONFIG), weights, LIMITS)
    (tmp_path / "packed").write_bytes(first.memory().tobytes())
    second = laid_out(Held(weights))  # whose gate nobody opens
    assert (second.layout, second.num_bytes) == (first.layout, first.num_bytes)
    file = os.open(tmp_path / "packed", os.O_RDONLY)
    second.place_in_file(file)
    os.close(file)
    assert second.is_whole
    assert np.array_equal(logits(second), expected)


def test_another_layout_has_another_name(weights: Mapping[str, PackedTensor]) -> None:
    wider = random_weights(CONFIG)
    assert laid_out(weights).layout != laid_out(wider).layout


def test_a_damaged_weight_ends_the_reading_and_is_never_said_to_be_there(
    weights: Mapping[str, PackedTensor],
) -> None:
    name = [name for name, weight in weights.items() if len(weight.shape) == 2][2]
    broken = Held(weights, damaged=name)
    broken.gate.set()
    packed = laid_out(broken)
    packed.place(is_shared=False)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        packed.fill()
    assert not packed.is_whole
