"""What a back end must offer: it runs programs (`ops/program.py`) over a KV pool, one step at a time.

A model composes ops on symbolic tensors whose only free sizes are `tokens` (T, the tokens of a step) and `samples` (S,
the rows that go through the head). The recorded list is the `Program`; back ends run it. Everything here is plain data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from tailrace.ops.program import Program
from tailrace.records import ResidencyCounts
from tailrace.types import OpTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tailrace.ops.packed import PackedTensor

__all__ = [
    "MAX_TOP_LOGPROBS",
    "NO_TOKEN",
    "Backend",
    "Ceilings",
    "Executable",
    "KvFormat",
    "LaidOutProgram",
    "Limits",
    "PackedProgram",
    "Progress",
    "ResidentExperts",
    "SampleOutputs",
    "SamplingInputs",
    "StepInputs",
    "TokenMasks",
]

MAX_TOP_LOGPROBS = 20
NO_TOKEN = -1  # drawn where a mask leaves nothing that can be

Progress = Callable[[int, int], None]  # weights taken, weights in all
KvFormat = Literal["bf16", "int8", "fp8_e4m3", "f32"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a step and of the KV pool; buffers are planned for them once."""

    max_tokens: int  # T of a step
    max_samples: int  # S of a step
    max_sequences: int  # rows of the block table matrix
    max_model_tokens: int  # positions of one sequence
    num_blocks: int
    block_tokens: int
    num_threads: int
    expert_bytes: int | None = None  # of memory for experts that are loaded when they are chosen; None: all are there

    @property
    def max_blocks_per_sequence(self) -> int:
        return -(-self.max_model_tokens // self.block_tokens)


@dataclass(frozen=True, slots=True)
class StepInputs:
    """One step as arrays, all int32 and contiguous. N sequences, T tokens, S samples.

    Rows [row_starts[n], row_starts[n + 1]) belong to sequence n and hold its positions starts[n], starts[n] + 1, ...
    Position p of sequence n lives in row p % block_tokens of block block_tables[slots[n], p // block_tokens].
    """

    token_ids: "NDArray[np.int32]"  # [T]
    row_starts: "NDArray[np.int32]"  # [N + 1]
    starts: "NDArray[np.int32]"  # [N]
    slots: "NDArray[np.int32]"  # [N]
    block_tables: "NDArray[np.int32]"  # [max_sequences, max_blocks_per_sequence]
    sample_rows: "NDArray[np.int32]"  # [S]


@dataclass(frozen=True, slots=True)
class SamplingInputs:
    """How each sampled row is drawn, S rows. Ragged parts: row s owns [starts[s], starts[s + 1]).

    Order: repetition, frequency and presence penalty over the history; then the biases; then the mask, which leaves the
    logits of what it allows as they are and makes all others -inf; then, unless temperature is 0 (arg max, lowest id
    among equals): divide by temperature, keep min_p, top_k, top_p, draw by (seed, position). Where a mask leaves no
    logit above -inf, NO_TOKEN is drawn. Log probabilities are those of the model, before all of this.
    """

    temperature: "NDArray[np.float32]"
    top_p: "NDArray[np.float32]"
    top_k: "NDArray[np.int32]"
    min_p: "NDArray[np.float32]"
    seed: "NDArray[np.uint64]"
    position: "NDArray[np.int64]"  # of the token to be drawn
    num_logprobs: "NDArray[np.int32]"  # -1: none
    repetition_penalty: "NDArray[np.float32]"
    frequency_penalty: "NDArray[np.float32]"
    presence_penalty: "NDArray[np.float32]"
    history_starts: "NDArray[np.int32]"  # [S + 1]; empty rows have no penalty
    history_ids: "NDArray[np.int32]"  # prompt, then output
    history_prompt_tokens: "NDArray[np.int32]"  # of each row's history, how many are prompt
    bias_starts: "NDArray[np.int32]"  # [S + 1]
    bias_ids: "NDArray[np.int32]"
    bias_values: "NDArray[np.float32]"  # -inf forbids a token
    mask_rows: "NDArray[np.int32] | None" = None  # of `TokenMasks`; -1, or None for all: every token may be drawn


@dataclass(frozen=True, slots=True)
class SampleOutputs:
    """Drawn tokens; log probabilities are filled for rows with num_logprobs >= 0."""

    token_ids: "NDArray[np.int32]"  # [S]
    logprobs: "NDArray[np.float32]"  # [S]
    top_ids: "NDArray[np.int32]"  # [S, MAX_TOP_LOGPROBS], best first
    top_logprobs: "NDArray[np.float32]"  # [S, MAX_TOP_LOGPROBS]


class TokenMasks(Protocol):
    """Which tokens may be drawn, a row for each sequence that has a guide.

    Another thread writes a row while the step runs that will draw with it, and then tells for which position it holds:
    a draw waits for its own. Whoever lets a step begin sees to it that this comes.
    """

    @property
    def rows(self) -> "NDArray[np.uint32]":
        """[2 * max_sequences, ceil(vocab / 32)]: bit i of word w says whether token 32 w + i may be drawn."""
        ...

    @property
    def waited_s(self) -> float:
        """How long draws have waited, all together."""
        ...

    def tell(self, row: int, position: int) -> None:
        """What is in the row holds from now on, for this position. May be called by any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What a machine does at best."""

    read_bytes_per_s: float
    dot_ops_per_s: float  # int8 multiplies and adds


class ResidentExperts(Protocol):
    """Experts of which not all are in memory."""

    def counts(self) -> ResidencyCounts: ...

    def watch(self, on_filled: Callable[[], None]) -> None:
        """Call this, from any thread, whenever an expert has come: a step that waits for many is not hanging."""
        ...


class Executable(Protocol):
    """A program with its weights and its KV pool on one device."""

    @property
    def kv_bytes_per_block(self) -> int: ...

    @property
    def kv_pool(self) -> "NDArray[np.uint8]":
        """The KV pool itself, [num_blocks, kv_bytes_per_block]: a row is a block, in the back end's own layout.

        Rows may be read and written while a step runs, if it neither reads nor writes them.
        """
        ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def is_whole(self) -> bool:
        """Whether all weights are there. Until then a step may wait for them."""
        ...

    @property
    def expert_loads(self) -> "tuple[NDArray[np.uint64], ...]":
        """Of each mixture of experts, in order, the rows each expert has computed; () where nobody counts them.

        May be read at any time, while a step runs or after the end.
        """
        ...

    @property
    def resident_experts(self) -> ResidentExperts | None:
        """None where all experts are in memory, if there are any."""
        ...

    @property
    def masks(self) -> TokenMasks:
        """What `mask_rows` of a sampling name. They may be written at any time, and outlive this."""
        ...

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        """Compute a step and draw the samples. One thread at a time; outputs are valid until the next call."""
        ...

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        """As `run`, to the last bit, and where its time went: by kind (`ops/op_kinds.py`), each kind once.

        Together they take no longer than the call; what is missing was spent between two ops. Bytes and operations are
        those of `ops/costs.py`, and belong to the kind in whose time they were moved and done: a back end that fuses
        ops tells of them as one.
        """
        ...

    def logits(self, step: StepInputs) -> "NDArray[np.float32]":
        """Compute a step and return the logits [S, vocab] themselves."""
        ...

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first rows of one block to another, all caches."""
        ...

    @property
    def kv_resident_bytes(self) -> int:
        """Physical memory under the KV pool. May be read at any time."""
        ...

    def commit(self, blocks: range) -> None:
        """Keep the memory of a run of consecutive blocks from now on, until they are released."""
        ...

    def populate(self, blocks: range) -> None:
        """Get memory for a run of consecutive blocks now, rather than when a step first touches them."""
        ...

    def release(self, blocks: range) -> None:
        """Give the memory of a run of consecutive blocks back; what they hold is lost. They may be used again."""
        ...

    def close(self) -> None: ...


class PackedProgram(Protocol):
    """A program with its weights, and nothing that ends with a process: forked ones share the memory of the weights."""

    def start(self) -> Executable:
        """Take threads, buffers and a KV pool, in the process that will compute. Raises SetupError."""
        ...


class LaidOutProgram(PackedProgram, Protocol):
    """A program whose weights have places and are to be read. It may run meanwhile: stages wait for their own."""

    @property
    def num_bytes(self) -> int:
        """Of the memory that all weights take, which may be shared and kept; 0: there is no such memory."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether all weights are there."""
        ...

    @property
    def layout(self) -> str:
        """Names how they lie there: the same layout, the same weights, the same bytes."""
        ...

    def place(self, *, is_shared: bool) -> None:
        """Take memory for them; of all processes that are forked from here on, or best for this one alone."""
        ...

    def place_in_file(self, file: int) -> None:
        """Let them be those of a file, all of them, which is never written to."""
        ...

    def fill(self, progress: Progress | None = None) -> None:
        """Read the weights, in the order in which they are needed. Raises CheckpointError for damaged ones."""
        ...

    def memory(self) -> "NDArray[np.uint8]":
        """The bytes, [num_bytes]."""
        ...


class Backend(Protocol):
    """Runs programs on one kind of device."""

    @property
    def name(self) -> str: ...

    @property
    def kv_format(self) -> KvFormat:
        """How keys and values are kept."""
        ...

    @property
    def kv_bits(self) -> str:
        """Names what else decides the bits of a block: the same name, the same tokens and weights, the same bits."""
        ...

    def kv_bytes_per_block(self, program: Program, block_tokens: int) -> int:
        """Memory of one block in all caches of the program, known before anything is loaded."""
        ...

    def pack(
        self,
        program: Program,
        weights: "Mapping[str, PackedTensor]",
        limits: Limits,
        progress: Progress | None = None,
    ) -> "PackedProgram":
        """Take the weights into this back end's own layout. Leaves no thread: the process may still be forked."""
        ...

    def lay_out(self, program: Program, weights: "Mapping[str, PackedTensor]", limits: Limits) -> "LaidOutProgram":
        """As `pack`, up to where weights get memory and are read.

        Raises CheckpointError when one is missing or has another shape.
        """
        ...

    def load(self, program: Program, weights: "Mapping[str, PackedTensor]", limits: Limits) -> Executable:
        """Pack and start at once."""
        ...
