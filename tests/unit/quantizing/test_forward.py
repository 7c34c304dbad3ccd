"""Many rows at a time come to what the reference finds one row at a time."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.models.registry import build_program
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import Experts
from tailrace.ops.reference import ReferenceBackend
from tailrace.quantizing.forward import Forward, ReadRows
from tailrace.quantizing.source import rows_of
from tests.support.steps import limits, teacher_forced
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, random_ids, random_weights

LENGTH = 45
LIMITS = limits(max_tokens=LENGTH, max_model_tokens=LENGTH, block_tokens=5)
ALL = CONFIGS | DEEPSEEK_CONFIGS


def reading(weights: dict[str, PackedTensor]) -> ReadRows:
    return lambda name, begin, end: rows_of(weights[name], begin, end)


@pytest.mark.parametrize("name", ALL)
def test_logits_are_those_of_the_reference(name: str) -> None:
    program, weights = build_program(ALL[name]), random_weights(ALL[name])
    token_ids = np.array([random_ids(ALL[name], LENGTH, seed) for seed in (1, 2)])
    forward = Forward(token_ids, reading(weights))
    forward.run(program.ops)

    executable = ReferenceBackend().load(program, weights, LIMITS)
    expected = [teacher_forced(executable, LIMITS, ids.tolist(), chunk_tokens=LENGTH) for ids in token_ids]
    np.testing.assert_allclose(forward.tensors[program.logits.index], np.concatenate(expected), atol=2e-5)


def seen(name: str) -> dict[tuple[str, int], NDArray[np.float32]]:
    program, weights = build_program(ALL[name]), random_weights(ALL[name])
    found: dict[tuple[str, int], NDArray[np.float32]] = {}
    forward = Forward(np.array([random_ids(ALL[name], LENGTH)]), reading(weights), {})
    forward.observe = lambda weight, matrix, rows: found.update({(weight, matrix): rows})
    forward.run(program.ops)
    return found


def test_every_matrix_of_the_layers_is_observed_with_rows_of_its_width() -> None:
    found, weights = seen("latent and experts"), build_program(ALL["latent and experts"]).weights
    matrices = {name for name, weight in weights.items() if len(weight.shape) == 2 and name != "embed"}

    assert {name for name, _ in found} == matrices
    assert all(rows.shape[1] == weights[name].shape[1] for (name, _), rows in found.items())


def test_an_expert_is_observed_with_the_rows_that_choose_it_alone() -> None:
    found, program = seen("experts"), build_program(ALL["experts"])
    (op,) = (op for op in program.ops if isinstance(op, Experts))
    counts = [len(found[op.gate.name, expert]) for expert in range(10) if (op.gate.name, expert) in found]

    assert sum(counts) == LENGTH * op.routing.top_k
    assert max(counts) < LENGTH
    assert all(
        len(found[op.down.name, expert]) == len(rows) for (name, expert), rows in found.items() if name == op.up.name
    )
