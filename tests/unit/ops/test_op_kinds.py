"""What an op is for follows from who reads what it puts out, whatever its weights are called."""

import pytest

from tailrace.models.registry import build_program
from tailrace.ops.builder import ProgramBuilder
from tailrace.ops.op_kinds import OpKind, kinds_of
from tailrace.ops.program import Linear, Program, Weight
from tests.support.tiny import CONFIGS, DEEPSEEK_CONFIGS


def kinds_of_linears(program: Program) -> dict[str, OpKind]:
    """By the names of their first weights."""
    pairs = zip(program.ops, kinds_of(program), strict=True)
    return {op.weights[0].name: kind for op, kind in pairs if isinstance(op, Linear)}


def test_a_dense_model_has_its_projections_and_its_head() -> None:
    kinds = kinds_of_linears(build_program(CONFIGS["tied, interleaved"]))

    assert kinds == {
        **{
            f"layers.{layer}.{name}": kind
            for layer in range(2)
            for name, kind in (
                ("q", OpKind.QKV),
                ("o", OpKind.ATTENTION_OUT),
                ("gate", OpKind.GATE_UP),
                ("down", OpKind.DOWN),
            )
        },
        "embed": OpKind.HEAD,
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("q_a", OpKind.QKV),  # through a norm, to queries and to those of the index
        ("q_b", OpKind.QKV),
        ("kv_a", OpKind.QKV),
        ("index.q", OpKind.INDEX),
        ("index.k", OpKind.INDEX),
        ("index.weights", OpKind.INDEX),
        ("router", OpKind.ROUTE),
        ("shared.gate", OpKind.GATE_UP),
        ("shared.down", OpKind.DOWN),
    ],
)
def test_a_sparse_mixture_has_many_kinds_of_projections(name: str, kind: OpKind) -> None:
    assert kinds_of_linears(build_program(DEEPSEEK_CONFIGS["sparse"]))[f"layers.1.{name}"] == kind


def test_a_linear_of_no_known_purpose_is_just_that() -> None:
    build = ProgramBuilder()
    x = build.linear(build.embed(Weight("embed", (8, 4))), Weight("any", (4, 4)))
    program = build.finish(build.gather_rows(x))

    assert kinds_of(program) == (OpKind.EMBED, OpKind.LINEAR, OpKind.GATHER)
