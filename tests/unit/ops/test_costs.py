"""Costs by hand for small programs, and against numpy that counts its products while the reference computes."""

from typing import Any

import numpy as np
import pytest

from tailrace.models.registry import build_program
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.costs import ProgramCosts, Realisation
from tailrace.ops.op_kinds import OpKind
from tailrace.ops.program import RopeSpec, Weight
from tailrace.ops.reference import ReferenceBackend
from tailrace.ops.step_work import StepWork
from tests.support.steps import Part, limits, sampling, step
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS, random_weights

LIMITS = limits(max_tokens=64, max_model_tokens=64, block_tokens=4)
STEP = (Part(0, 0, range(1, 31)), Part(1, 40, [7]), Part(2, 3, [8, 9]))


def test_a_layer_of_grouped_queries_by_hand() -> None:
    """Two rows at positions 4 and 5: 4 query heads of 8 dimensions on 2 heads of keys and values, 16 columns."""
    build = ProgramBuilder()
    cache = build.kv_cache(2, 8)
    qkv = build.linear(build.embed(Weight("embed", (10, 16))), Weight("qkv", (64, 16)))
    q = build.rope_and_store(qkv, cache, 4, RopeSpec((1.0, 0.5, 0.25, 0.125)))
    program = build.finish(build.gather_rows(build.paged_attention(q, cache, 4, 1.0)))
    costs = ProgramCosts(program, Realisation({"embed": 10 * 40, "qkv": 700}, [36.0]))
    work = StepWork(np.array([4]), np.array([2]), np.array([[0, 1]], np.int32), 4, num_samples=1)
    num_bytes, num_ops = costs.of(work)
    found = dict(zip(costs.parts, zip(num_bytes.tolist(), num_ops.tolist(), strict=True), strict=True))

    assert found == {
        (0, OpKind.EMBED): (2 * 40, 0),
        (1, OpKind.QKV): (700, 2 * 2 * 64 * 16),
        (2, OpKind.ROPE): (2 * 36, 0),
        (3, OpKind.ATTENTION): (6 * 36, (5 + 6) * 4 * (2 * 8 + 2 * 8)),
    }


class CountedArray(np.ndarray[Any, Any]):
    """Counts the multiplications and additions of every product of matrices that it takes part in."""

    num_ops = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [values.view(np.ndarray) if isinstance(values, CountedArray) else values for values in inputs]
        if out is not None:
            options["out"] = tuple(values.view(np.ndarray) for values in out)
        result = getattr(ufunc, method)(*plain, **options)
        if ufunc is np.matmul:
            CountedArray.num_ops += 2 * plain[0].shape[-1] * np.size(result)
        return _counted(result)

    def __array_function__(self, *called: Any) -> Any:
        return _counted(super().__array_function__(*called))


def _counted(result: Any) -> Any:
    """So that what is made of these arrays counts on."""
    return result.view(CountedArray) if isinstance(result, np.ndarray) else result


@pytest.mark.parametrize("name", [*CONFIGS, *DEEPSEEK_CONFIGS])
def test_operations_are_those_that_the_reference_does(name: str) -> None:
    config = (CONFIGS | DEEPSEEK_CONFIGS)[name]
    executable = ReferenceBackend().load(build_program(config), random_weights(config), LIMITS)
    executable._weights = {key: values.view(CountedArray) for key, values in executable._weights.items()}
    for cache in executable._caches:
        for pool in (cache.keys, cache.values):
            object.__setattr__(pool, "blocks", pool.blocks.view(CountedArray))
    CountedArray.num_ops = 0
    inputs = step(LIMITS, *STEP, sample_rows=[30, 32])
    _, ops = executable.run_timed(inputs, sampling(2))

    assert sum(op.num_ops for op in ops) == CountedArray.num_ops > 0
