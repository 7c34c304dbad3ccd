"""Layer by layer through a model with a text: see what each matrix is given, quantise the layer, compute it again.

So every layer is fitted to what it will be given: the outputs of layers that are quantised already.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tailrace.ops.program import Op
from tailrace.ops.reference_math import Array
from tailrace.quantizing.forward import Forward, TokenIds
from tailrace.quantizing.plan import Target
from tailrace.quantizing.rounding import rounded
from tailrace.quantizing.segments import needed_after, segments, weights_of
from tailrace.quantizing.source import Source
from tailrace.weights.stored import FileTensor

__all__ = ["Inputs", "Layer", "LayerMethod", "calibrated"]


@dataclass(slots=True)
class Inputs:
    """The rows that each matrix was given, by our weight and the number of the matrix in it."""

    rows: dict[tuple[str, int], Array] = field(default_factory=dict)

    def observe(self, weight: str, matrix: int, rows: Array) -> None:
        self.rows[weight, matrix] = rows


@dataclass(frozen=True, slots=True)
class Layer:
    """What there is to quantise at a time: the file's tensors that some consecutive ops read, with their inputs."""

    source: Source
    ops: Sequence[Op]
    targets: Mapping[str, Target]
    inputs: Mapping[tuple[str, int], Array]

    def num_matrices(self, weight: str) -> int:
        """How many matrices that are given rows of their own our weight `weight` holds."""
        mixture = self.source.config.mixture
        return mixture.routing.num_experts if mixture is not None and ".experts." in weight else 1


class LayerMethod(Protocol):
    def quantize(self, layer: Layer) -> dict[str, FileTensor]:
        """What stands in for the layer's tensors: all that are rounded, and what else has changed."""
        ...


def calibrated(
    source: Source,
    plan: Mapping[str, Target],
    token_ids: TokenIds,
    method: LayerMethod,
    progress: Callable[[int, int], None],
) -> Iterator[tuple[str, FileTensor]]:
    """The tensors of the output in the plan's order. What the model proper does not read is rounded to nearest."""
    state: dict[int, Array] = {}
    left, parts = dict(plan), segments(source.program.ops[:-1])
    for done, ops in enumerate(parts):
        progress(done, len(parts))
        targets = _targets(source, left, ops)
        inputs = Inputs()
        Forward(token_ids, source.reader(), dict(state), inputs.observe).run(ops)
        made = method.quantize(Layer(source, ops, targets, inputs.rows))
        yield from ((name, made.get(name, source.tensors[name])) for name in targets)
        forward = Forward(token_ids, source.reader(made), state)
        forward.run(ops)
        state = needed_after(source.program, ops, forward.tensors)
        for name in targets:
            left.pop(name)
            source.tensors[name].release()
    yield from rounded(source, left, lambda *_: None)
    progress(len(parts), len(parts))


def _targets(source: Source, left: Mapping[str, Target], ops: Sequence[Op]) -> dict[str, Target]:
    read = {weight.name for op in ops for weight in weights_of(op)}
    return {
        name: target for name, target in left.items() if name in source.places and source.places[name].weight in read
    }
