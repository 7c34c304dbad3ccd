"""Where the CPU back end's activations lie. Knows stages and sizes; what a quantised row takes, it is told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tailrace.ops.api import Limits
from tailrace.ops.cpu.buffers import Lifetime, plan_offsets
from tailrace.ops.cpu.stages import Buffer, NormStage, Stage, lifetimes_of

__all__ = ["ActivationMemory", "Codes", "QuantizedBytes"]

Codes = tuple[int, int | None]  # where quantised rows lie: shared offset, offset in each thread's own copies
QuantizedBytes = Callable[[int, int], int]  # of so many rows of so many columns

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class ActivationMemory:
    """Byte offsets of buffers: among the activations, and within each thread's own copies of what norms put out."""

    shared: dict[Buffer, int]
    shared_bytes: int
    private: dict[Buffer, int]
    private_bytes: int

    @classmethod
    def plan(
        cls, stages: Sequence[Stage], limits: Limits, quantized_bytes: QuantizedBytes, private_rows: int
    ) -> "ActivationMemory":
        """Buffers that are never alive together share memory. A thread's own copy has `private_rows` rows."""
        lifetimes = lifetimes_of(stages)
        sizes = {buffer: _num_bytes(buffer, limits, quantized_bytes) for buffer in lifetimes}
        shared, shared_bytes = _place(sizes, lifetimes)
        # A thread's own copy serves the stage behind the norm alone: of another it may do pieces without having done
        # any of that one. A norm that puts out floats too is computed once, for all threads.
        normed = [
            stage.codes
            for index, stage in enumerate(stages)
            if isinstance(stage, NormStage)
            and stage.codes is not None
            and stage.out is None
            and lifetimes[stage.codes][1] == index + 1
        ]
        copies = {buffer: quantized_bytes(private_rows, buffer.tensor.cols) for buffer in normed}
        private, private_bytes = _place(copies, lifetimes)
        return cls(shared, shared_bytes, private, private_bytes)

    def codes(self, buffer: Buffer) -> Codes:
        return self.shared[buffer], self.private.get(buffer)


def _place(sizes: Mapping[Buffer, int], lifetimes: Mapping[Buffer, tuple[int, int]]) -> tuple[dict[Buffer, int], int]:
    offsets, num_bytes = plan_offsets(Lifetime(size, *lifetimes[buffer]) for buffer, size in sizes.items())
    return dict(zip(sizes, offsets, strict=True)), num_bytes


def _num_bytes(buffer: Buffer, limits: Limits, quantized_bytes: QuantizedBytes) -> int:
    rows = limits.max_tokens if buffer.tensor.rows == "tokens" else limits.max_samples
    cols = buffer.tensor.cols
    return quantized_bytes(rows, cols) if buffer.form == "int8" else rows * cols * _FLOAT_BYTES
