"""Where activations lie: which of them each thread may have a copy of."""

from tailrace.ops.cpu.activations import ActivationMemory
from tailrace.ops.cpu.stages import Buffer, GemmStage, NormStage
from tailrace.ops.program import Tensor, Weight
from tests.support.steps import limits

X, NORMED, FIRST, SECOND = (Tensor(index, "tokens", 64) for index in range(4))
CODES = Buffer(NORMED, "int8")


def norm(*, has_floats: bool) -> NormStage:
    floats = Buffer(NORMED, "float") if has_floats else None
    return NormStage(Buffer(X, "float"), Weight("norm", (64,)), 1e-6, floats, CODES)


def gemm(out: Tensor, *, floats: Buffer | None = None, codes: Buffer | None = None) -> GemmStage:
    return GemmStage(floats, codes, (Weight(f"{out.index}", (64, 64)),), (None,), None, Buffer(out, "float"))


def plan(*stages: NormStage | GemmStage) -> ActivationMemory:
    return ActivationMemory.plan(stages, limits(), lambda rows, cols: rows * cols, private_rows=2)


def test_what_the_stage_behind_a_norm_reads_each_thread_may_compute_for_itself() -> None:
    assert plan(norm(has_floats=False), gemm(FIRST, codes=CODES)).codes(CODES)[1] is not None


def test_what_a_later_stage_reads_is_computed_once() -> None:
    stages = norm(has_floats=False), gemm(FIRST, codes=CODES), gemm(SECOND, codes=CODES)
    assert plan(*stages).codes(CODES)[1] is None


def test_a_norm_that_puts_out_floats_too_is_computed_once() -> None:
    """Only one thread does: a copy of its own would hold the codes for nobody else."""
    floats = Buffer(NORMED, "float")
    stages = norm(has_floats=True), gemm(FIRST, codes=CODES), gemm(SECOND, floats=floats)
    assert plan(*stages).codes(CODES)[1] is None
