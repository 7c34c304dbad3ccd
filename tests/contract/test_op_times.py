"""What every back end tells of a step that it times: the same tokens, where the time went, what that exactly cost."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import partial
from math import ceil, prod
from threading import Timer
from time import perf_counter

import numpy as np
import pytest

from tailrace.models.config import ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend, Executable, Limits, StepInputs
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tailrace.ops.op_kinds import OpKind
from tailrace.ops.packed import PackedTensor, from_float32, quantize_int4, quantize_int8
from tailrace.ops.reference import ReferenceBackend
from tests.support.op_costs import Kept, SlowStep, slow_costs
from tests.support.steps import Part, limits, sampling, step, teacher_forced
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, Pack, random_ids, random_weights

LIMITS = limits(max_tokens=160, max_model_tokens=160, block_tokens=16)
BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": ReferenceBackend,
    **{f"cpu {isa}": partial(CpuBackend, isa) for isa in dict.fromkeys((supported_isas()[0], "portable"))},
}
MODELS = CONFIGS | {name: DEEPSEEK_CONFIGS[name] for name in ("experts", "latent and experts", "sparse")}
PACKS: dict[str, Pack] = {"q8": quantize_int8, "q4": quantize_int4}
EXPERT_MATRICES = ("experts.gate", "experts.up", "experts.down")
TILE = 16  # rows of a matrix, and positions of a KV cache, that the CPU back end keeps together


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]()


def load(backend: Backend, config: ModelConfig, pack: Pack = from_float32, of: Limits = LIMITS) -> Executable:
    return backend.load(build_program(config), random_weights(config, pack), of)


def mixed_step(config: ModelConfig, *, decodes: bool = True) -> StepInputs:
    """A chunk of a prompt, and two sequences that decode; nobody has computed what they see, which costs the same."""
    prompt = Part(0, 32, random_ids(config, 37))
    parts = [prompt, Part(1, 70, [3]), Part(2, 41, [5])] if decodes else [prompt]
    num_rows = sum(len(part.ids) for part in parts)
    return step(LIMITS, *parts, sample_rows=range(num_rows - 3, num_rows) if decodes else [])


def slow_step(inputs: StepInputs, chosen: Sequence[set[int]]) -> SlowStep:
    counts = np.diff(inputs.row_starts).tolist()
    tables = inputs.block_tables[inputs.slots].tolist()
    sequences = list(zip(inputs.starts.tolist(), counts, tables, strict=True))
    return SlowStep(sequences, LIMITS.block_tokens, len(inputs.sample_rows), chosen)


def kept_by(backend: Backend, config: ModelConfig, pack: Pack = from_float32) -> Kept:
    """How the back ends keep what is in their docstrings and in csrc/kernels/layout.h, worked out by hand."""
    if backend.name == "reference":
        weight_bytes = {name: 4 * prod(weight.shape) for name, weight in build_program(config).weights.items()}
        return Kept(weight_bytes, _position_bytes(config, 4, 1), is_expanded=True, scores_all=True)
    num_matrices = {"k_b": config.num_heads, "v_b": config.num_heads}
    if config.mixture is not None:
        num_matrices |= dict.fromkeys(EXPERT_MATRICES, config.mixture.routing.num_experts)
    weight_bytes = {
        name: _packed_bytes(weight, num_matrices.get(name.split(".", 2)[-1], 1))
        for name, weight in random_weights(config, pack).items()
    }
    return Kept(weight_bytes, _position_bytes(config, 2, 16))


def _packed_bytes(weight: PackedTensor, num_matrices: int) -> int:
    if len(weight.shape) == 1:
        return 4 * weight.shape[0]
    rows, cols = weight.shape[0] // num_matrices, weight.shape[1]
    row_bytes = {"f32": 4 * cols, "q8": cols // 32 * (32 + 2), "q4": cols // 32 * (16 + 4)}[weight.format]
    return num_matrices * ceil(rows / TILE) * ceil(TILE * row_bytes / 64) * 64


def _position_bytes(config: ModelConfig, value_bytes: int, padding: int) -> list[int]:
    def padded(dim: int) -> int:
        return ceil(dim / padding) * padding

    latent, sparse = config.latent, config.sparse
    if latent is None:
        return [2 * config.num_kv_heads * padded(config.head_dim) * value_bytes]
    index = [] if sparse is None else [padded(sparse.head_dim) * value_bytes]
    return [padded(padded(latent.latent_dim) + latent.rope_dim) * value_bytes, *index]


def run_timed(
    executable: Executable, inputs: StepInputs
) -> tuple[dict[str, tuple[float, float, float]], list[set[int]]]:
    """Seconds, bytes and operations by kind, and the experts that were chosen."""
    before = executable.expert_loads
    _, ops = executable.run_timed(inputs, sampling(len(inputs.sample_rows)))
    after = executable.expert_loads
    chosen = [set(np.flatnonzero(now > then).tolist()) for now, then in zip(after, before, strict=True)]
    assert len({op.name for op in ops}) == len(ops)
    return {op.name: (op.seconds, op.num_bytes, op.num_ops) for op in ops}, chosen


@pytest.mark.parametrize("decodes", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_ops_cost_what_counting_slowly_says(backend: Backend, name: str, decodes: bool) -> None:
    config = MODELS[name]
    inputs = mixed_step(config, decodes=decodes)
    ops, chosen = run_timed(load(backend, config), inputs)
    expected = slow_costs(config, slow_step(inputs, chosen), kept_by(backend, config))

    assert costs_of(ops) == pytest.approx(as_told(backend, config, expected))


@pytest.mark.parametrize("format_", PACKS)
@pytest.mark.parametrize("name", ["plain", "latent and experts"])
def test_packed_weights_cost_what_they_take(backend: Backend, name: str, format_: str) -> None:
    config = MODELS[name]
    inputs = mixed_step(config)
    ops, chosen = run_timed(load(backend, config, PACKS[format_]), inputs)
    expected = slow_costs(config, slow_step(inputs, chosen), kept_by(backend, config, PACKS[format_]))

    assert costs_of(ops) == pytest.approx(as_told(backend, config, expected))


def costs_of(ops: dict[str, tuple[float, float, float]]) -> dict[str, float]:
    """Flat, for comparison: what costs nothing is left out."""
    return {
        f"{kind} {what}": cost
        for kind, (_, *costs) in ops.items()
        for what, cost in zip(("bytes", "ops"), costs, strict=True)
        if cost
    }


def as_told(backend: Backend, config: ModelConfig, expected: dict[str, tuple[float, float]]) -> dict[str, float]:
    """The reference tells of latent attention, and what that keeps of a token, as one."""
    told = {kind: (0.0, *costs) for kind, costs in expected.items()}
    if backend.name == "reference" and config.latent is not None:
        _, num_bytes, num_ops = told["attention"]
        told["attention"] = (0.0, num_bytes + told.pop("rope")[1], num_ops)
    return costs_of(told)


def test_a_timed_step_draws_the_same(backend: Backend) -> None:
    config = MODELS["latent and experts"]
    drawn = []
    for timed in (False, True):
        executable = load(backend, config, quantize_int8)
        teacher_forced(executable, LIMITS, random_ids(config, 40), chunk_tokens=40)
        inputs, how = step(LIMITS, Part(0, 40, random_ids(config, 20))), sampling(20, num_logprobs=3, first_position=41)
        outputs = executable.run_timed(inputs, how)[0] if timed else executable.run(inputs, how)
        drawn.append([values.copy() for values in astuple(outputs)])

    assert all(np.array_equal(one, other) for one, other in zip(*drawn, strict=True))


def test_ops_take_no_longer_than_the_step(backend: Backend) -> None:
    config = MODELS["plain"]
    executable, inputs = load(backend, config), mixed_step(config)
    started_s = perf_counter()
    ops, _ = run_timed(executable, inputs)
    took_s = perf_counter() - started_s

    assert all(seconds >= 0 for seconds, _, _ in ops.values())
    assert 0 < sum(seconds for seconds, _, _ in ops.values()) <= took_s
    assert ops.keys() <= set(OpKind)
    assert ops["sampling"][0] > 0
    assert "waiting" not in ops


def test_waiting_for_a_mask_is_told_apart(backend: Backend) -> None:
    executable = load(backend, MODELS["plain"])
    masks, masked = executable.masks, replace(sampling(1, first_position=2), mask_rows=np.zeros(1, np.int32))
    masks.rows[0] = 0xFFFFFFFF
    telling = Timer(0.1, masks.tell, (0, 2))
    telling.start()
    started_s = perf_counter()
    _, ops = executable.run_timed(step(LIMITS, Part(0, 0, [1, 2]), sample_rows=[1]), masked)
    took_s = perf_counter() - started_s
    telling.join()
    seconds = {op.name: op.seconds for op in ops}

    assert masks.waited_s <= seconds["waiting"] <= took_s
    assert sum(seconds.values()) <= took_s
