"""Round to nearest: each value for itself, without looking at a text."""

from collections.abc import Callable, Iterator, Mapping

from tailrace.quantizing.grid import Grid, round_rows
from tailrace.quantizing.plan import Target
from tailrace.quantizing.source import Made, Source
from tailrace.weights.stored import FileTensor

__all__ = ["nearest", "rounded"]


def rounded(
    source: Source, plan: Mapping[str, Target], progress: Callable[[int, int], None]
) -> Iterator[tuple[str, FileTensor]]:
    """The tensors of the output in the plan's order, one at a time."""
    for done, (name, target) in enumerate(plan.items()):
        progress(done, len(plan))
        tensor = source.tensors[name]
        yield name, nearest(tensor, target) if isinstance(target, Grid) else tensor
        tensor.release()
    progress(len(plan), len(plan))


def nearest(tensor: FileTensor, grid: Grid) -> Made:
    matrix = tensor.as_matrix()
    return Made(tensor.shape, round_rows(matrix.rows, matrix.shape, grid, tensor.where), tensor.where)
