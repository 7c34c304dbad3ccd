"""What stands beside the codes of a matrix under names like its own: found, and taken off the list of a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.errors import CheckpointError
from tailrace.weights.quantized.scales import FLOATS, Grid
from tailrace.weights.safetensors import SafetensorsTensor

__all__ = ["Companions", "matrix_shape", "scale_grid"]

# What activations, keys and values would be quantised with: ours are quantised as the server is told to.
_IGNORED = (
    *(f".input_{part}" for part in ("scale", "zero_point", "global_scale")),
    *(f".output_{part}" for part in ("scale", "zero_point", "global_scale")),
    *(f".{which}_{part}" for which in ("k", "v", "q", "kv") for part in ("scale", "zero_point", "global_scale")),
    ".activation_scale",
    ".prob_scale",
)


@dataclass(frozen=True, slots=True)
class Companions:
    """The tensors of a file; `taken` are those that are part of another."""

    tensors: Mapping[str, SafetensorsTensor]
    taken: set[str] = field(default_factory=set)

    def find(self, *names: str) -> SafetensorsTensor | None:
        """The first of these that is there."""
        for name in names:
            if name in self.tensors:
                self.taken.add(name)
                return self.tensors[name]
        return None

    def take(self, owner: SafetensorsTensor, *names: str) -> SafetensorsTensor:
        """As `find`; one must be there, for what `owner` holds means nothing without."""
        found = self.find(*names)
        if found is None:
            raise CheckpointError(f"{owner.where} has codes of {owner.stored_format}, and {names[0]!r} is missing")
        return found

    def others(self) -> dict[str, SafetensorsTensor]:
        """What is left, without what weights have no need of."""
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if name not in self.taken and not name.endswith(_IGNORED)
        }


def matrix_shape(tensor: SafetensorsTensor) -> tuple[int, int]:
    """Raises CheckpointError for what is no matrix."""
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise CheckpointError(f"{tensor.where} has codes and shape {list(tensor.shape)}, which is no matrix's")
    return tensor.shape[0], tensor.shape[1]


def scale_grid(
    scale: SafetensorsTensor, shape: tuple[int, int], block: tuple[int, int], dtypes: tuple[str, ...] = FLOATS
) -> Grid:
    """How a scale for each block of a matrix of `shape` lies. Raises CheckpointError or UnsupportedModel.

    One for all may be a number without a shape, one for each row a vector.
    """
    grid = Grid.of(shape, *block)
    short = {(): 1, (1,): 1, (grid.rows,): grid.rows}.get(scale.shape)
    is_short = grid.columns == 1 and short == grid.rows
    scale.check_part(dtypes, scale.shape if is_short else (grid.rows, grid.columns))
    return grid
