"""What becomes of each tensor: rounded to a grid, kept as it is, or kept as floats that a method may scale."""

from collections.abc import Iterator
from typing import Literal

from tailrace.errors import UnsupportedModel
from tailrace.quantizing.grid import INT4, INT4_WITH_ZERO, INT8, Grid
from tailrace.quantizing.source import Place, Source, bits, is_composed, is_quantizable
from tailrace.weights.precision import Precision, precision_class
from tailrace.weights.stored import FileTensor

__all__ = ["AS_FLOAT", "KEPT", "Target", "Width", "make_plan"]

Width = Literal["int8", "int4"]
KEPT: Literal["kept"] = "kept"  # byte for byte
AS_FLOAT: Literal["float32"] = "float32"
Target = Grid | Literal["kept", "float32"]


def make_plan(source: Source, to: Width, *, is_scaling: bool) -> dict[str, Target]:
    """The output's tensors in the order in which they are made. `is_scaling`: the method changes what is not rounded.

    Raises UnsupportedModel when nothing would become narrower.
    """
    plan = dict(_targets(source, to, is_scaling))
    if not any(isinstance(target, Grid) for target in plan.values()):
        raise UnsupportedModel(
            f"{source.path}: its matrices have {_widths(source)} bits already: --to {to} would make none of them "
            "narrower; start from a file with wider weights"
        )
    return plan


def _targets(source: Source, to: Width, is_scaling: bool) -> Iterator[tuple[str, Target]]:
    for name, place in source.places.items():
        grid = _grid(source, place, source.tensors[name], to)
        yield (
            name,
            grid
            or _unrounded(source.tensors[name], may_change=is_scaling and _is_scalable(source.tensors[name], place)),
        )
    for name in (name for name in source.tensors if name not in source.places):
        yield name, _unrounded(source.tensors[name], may_change=False)


def _grid(source: Source, place: Place, tensor: FileTensor, to: Width) -> Grid | None:
    width = Precision.parse(to).width(precision_class(place.weight))
    # Other engines read embeddings and heads of a directory as floats alone.
    if width in (None, "float") or not is_quantizable(tensor.shape) or (place.is_table and source.is_directory):
        return None
    grid = INT8 if width == "int8" else INT4_WITH_ZERO if source.is_directory else INT4
    if bits(tensor) > grid.bits:
        return grid
    if is_composed(tensor):
        raise UnsupportedModel(
            f"{tensor.where} is quantised to {bits(tensor)} bits already: --to {to} would make it no narrower; start "
            "from a model with wider weights"
        )
    return None


def _unrounded(tensor: FileTensor, *, may_change: bool) -> Target:
    return AS_FLOAT if may_change or is_composed(tensor) else KEPT


def _is_scalable(tensor: FileTensor, place: Place) -> bool:
    return not place.is_table and bits(tensor) >= 16


def _widths(source: Source) -> str:
    tensors = [source.tensors[name] for name, place in source.places.items() if _is_narrowed(place)]
    found = sorted({bits(tensor) for tensor in tensors if is_quantizable(tensor.shape)})
    return " and ".join(map(str, found)) or "no"


def _is_narrowed(place: Place) -> bool:
    return not place.is_table and Precision.parse("int4").width(precision_class(place.weight)) == "int4"
