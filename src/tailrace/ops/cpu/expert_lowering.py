"""A mixture of experts as the stages that the CPU back end runs. Knows shapes and weight formats only."""

from collections.abc import Callable, Iterator, Mapping

from tailrace.ops.cpu.stages import (
    Buffer,
    DispatchStage,
    ExpertDownStage,
    ExpertGatedStage,
    Form,
    KernelFormat,
    RouteStage,
    RowForms,
    Stage,
    input_form,
)
from tailrace.ops.program import Experts, Rows, Tensor

__all__ = ["expert_input_forms", "lower_experts"]


def expert_input_forms(op: Experts, formats: Mapping[str, KernelFormat]) -> set[Form]:
    """The forms in which the experts' gates read their rows."""
    return {input_form(formats[weight.name]) for weight in (op.gate, op.up)}


def lower_experts(
    op: Experts, formats: Mapping[str, KernelFormat], new_tensor: Callable[[Rows, int], Tensor]
) -> Iterator[Stage]:
    """Choose, lay rows out by expert, gate, and add up. `new_tensor` makes tensors that nobody else has."""
    rows, top_k = op.x.rows, op.routing.top_k
    forms = expert_input_forms(op, formats)
    x = RowForms.of(op.x, forms)
    places = RowForms.of(new_tensor(rows, top_k * op.x.cols), forms)
    gated = RowForms.of(new_tensor(rows, top_k * op.down.shape[1]), {input_form(formats[op.down.name])})
    yield RouteStage(op, Buffer(op.logits, "float"))
    yield DispatchStage(op, x, places)
    yield ExpertGatedStage(op, x, places, gated)
    yield ExpertDownStage(op, gated, Buffer(op.residual, "float"), Buffer(op.out, "float"))
