"""A published model's shape filled with random weights, as a checkpoint that can be loaded, run and written."""

from math import prod
from pathlib import Path

from tailrace.errors import SetupError
from tailrace.ops.packed import GROUP, WeightFormat
from tailrace.ops.program import Program
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.synthetic import SyntheticFormat, SyntheticTensors, synthetic_format
from tailrace.weights.synthetic_shapes import SHAPES
from tailrace.weights.synthetic_vocabulary import BEGIN_ID_FROM_END, END_ID_FROM_END, synthetic_vocabulary

__all__ = ["packed_bytes", "synthetic_checkpoint", "synthetic_tensors"]

_GROUP_BYTES: dict[WeightFormat, int] = {"f32": 4 * GROUP, "f16": 2 * GROUP, "bf16": 2 * GROUP, "q8": 34, "q4": 20}


def synthetic_tensors(name: str, wanted: SyntheticFormat, seed: int = 0) -> SyntheticTensors:
    """Random weights for the shape `name`; nothing is drawn before it is looked up. Raises SetupError."""
    config = SHAPES.get(name)
    if config is None:
        raise SetupError(f"no shape {name!r} is known; known are {', '.join(SHAPES)}")
    return SyntheticTensors(config, wanted, seed)


def synthetic_checkpoint(name: str, wanted: SyntheticFormat, seed: int = 0) -> Checkpoint:
    """The same as a whole model. Raises SetupError."""
    tensors = synthetic_tensors(name, wanted, seed)
    config = tensors.config
    size = config.vocab_size
    return Checkpoint(
        name=name,
        source=Path(name),
        config=config,
        tensors=tensors,
        fingerprint=f"synthetic {name} {wanted} {seed}",
        tokenizer=synthetic_vocabulary(size),
        chat_template=None,
        bos_id=size - BEGIN_ID_FROM_END,
        eos_ids=(size - END_ID_FROM_END,),
    )


def packed_bytes(program: Program, wanted: SyntheticFormat) -> dict[str, int]:
    """Bytes of each weight's values with their scales, without drawing any."""
    return {
        name: prod(weight.shape) * _GROUP_BYTES[synthetic_format(name, weight.shape, wanted)] // GROUP
        for name, weight in program.weights.items()
    }
