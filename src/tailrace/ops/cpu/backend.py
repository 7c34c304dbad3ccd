"""The native CPU back end: packs the weights once, plans all buffers, then computes each step in one native call."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, EngineError, SetupError, TailraceError
from tailrace.ops import _native
from tailrace.ops.api import (
    MAX_TOP_LOGPROBS,
    Ceilings,
    KvFormat,
    Limits,
    Progress,
    SampleOutputs,
    SamplingInputs,
    StepInputs,
)
from tailrace.ops.costs import ProgramCosts, Realisation
from tailrace.ops.cpu.activations import ActivationMemory
from tailrace.ops.cpu.latent import padded_caches
from tailrace.ops.cpu.lowering import LoweredStage, expert_weights, lower, matrices_of
from tailrace.ops.cpu.recorder import Recorder
from tailrace.ops.cpu.residency import ResidentExperts
from tailrace.ops.cpu.stage_times import StageTimes
from tailrace.ops.cpu.stages import Buffer, ExpertGatedStage, GatedStage, Stage, weights_of
from tailrace.ops.cpu.store import WeightStore
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import Embed, Experts, Program
from tailrace.ops.source import source_of
from tailrace.ops.step_work import StepWork
from tailrace.types import OpTime

__all__ = [
    "ISA_VARIABLE",
    "CpuBackend",
    "CpuExecutable",
    "CpuPackedProgram",
    "KvFormat",
    "measure_ceilings",
    "supported_isas",
]

ISA_VARIABLE = "TAILRACE_CPU_ISA"
WEIGHT_LAYOUT = 1  # of packed weights; another one for each change of csrc/kernels/layout.h or program/weights.cpp
KV_LAYOUT = 1  # of a block of the pool; another one for each change of csrc/kernels/layout.h or of a kernel's bits


def supported_isas() -> list[str]:
    """The instruction sets that this machine runs, by the names of csrc/simd/isa.cpp, best first; portable is last."""
    return _native.isas()


def measure_ceilings(num_threads: int, num_bytes: int, isa: str = "") -> Ceilings:
    """Read `num_bytes` from memory and multiply without touching it, on all threads at once; the best of some tries."""
    return Ceilings(*_native.ceilings(isa, num_threads, num_bytes))


class CpuBackend:
    """Runs programs on the processor's vector units.

    `isa` is one of `supported_isas()`; by default the environment variable TAILRACE_CPU_ISA decides, else the best.
    Raises SetupError when the machine does not have it. `kv_format` is how keys and values are kept: int8 and fp8_e4m3
    take half the memory of bf16 (benchmarks/quality shows what they cost), f32 is for comparisons.
    """

    name = "cpu"

    def __init__(self, isa: str | None = None, kv_format: KvFormat = "bf16") -> None:
        wanted = os.environ.get(ISA_VARIABLE, "") if isa is None else isa
        try:
            self.isa = _native.choose_isa(wanted)
        except ValueError as error:
            raise SetupError(f"{error} ({ISA_VARIABLE} or the back end's isa)") from error
        self.kv_format = kv_format

    @property
    def kv_bits(self) -> str:
        return f"layout {KV_LAYOUT}, {self.isa}"

    def kv_bytes_per_block(self, program: Program, block_tokens: int) -> int:
        return sum(_tile_bytes(program, self.kv_format)) * block_tokens // _native.TILE_TOKENS

    def pack(
        self,
        program: Program,
        weights: Mapping[str, PackedTensor],
        limits: Limits,
        progress: Progress | None = None,
    ) -> "CpuPackedProgram":
        """Pack every weight the program reads.

        Raises CheckpointError when a weight is missing or has another shape than the program expects.
        """
        packed = self.lay_out(program, weights, limits)
        packed.place(is_shared=False)
        packed.fill(progress)
        return packed

    def lay_out(self, program: Program, weights: Mapping[str, PackedTensor], limits: Limits) -> "CpuPackedProgram":
        """Lay out every weight, without memory for them yet. Raises what `pack` raises, but for damaged values."""
        store = WeightStore(source_of(weights))
        num_matrices = matrices_of(program)
        lazy = set() if limits.expert_bytes is None else expert_weights(program)
        for weight in program.weights.values():
            store.plan(weight, num_matrices.get(weight.name, 1), is_lazy=weight in lazy)
        stages = lower(program, store.formats)
        for stage, _ in stages:
            match stage:
                case GatedStage(gate=gate, up=up) | ExpertGatedStage(op=Experts(gate=gate, up=up)):
                    store.interleave(gate, up)
                case _:
                    pass
        return CpuPackedProgram(program, store, stages, limits, self.isa, self.kv_format)

    def load(self, program: Program, weights: Mapping[str, PackedTensor], limits: Limits) -> "CpuExecutable":
        """Raises what `pack` and `start` raise."""
        return self.pack(program, weights, limits).start()


@dataclass(frozen=True, slots=True)
class CpuPackedProgram:
    """A lowered program and its weights: laid out, then given memory, then filled, while it may already run."""

    program: Program
    store: WeightStore
    stages: Sequence[LoweredStage]
    limits: Limits
    isa: str
    kv_format: KvFormat

    @property
    def num_bytes(self) -> int:
        return self.store.packed.planned_bytes

    @property
    def layout(self) -> str:
        return f"{WEIGHT_LAYOUT}-{self.store.layout}"

    @property
    def is_whole(self) -> bool:
        return self.store.is_whole

    @property
    def realisation(self) -> Realisation:
        """What its weights, keys and values take."""
        weight_bytes = {name: self.store.bytes_of(weight) for name, weight in self.program.weights.items()}
        tile_bytes = _tile_bytes(self.program, self.kv_format)
        return Realisation(weight_bytes, [num_bytes / _native.TILE_TOKENS for num_bytes in tile_bytes])

    def place(self, *, is_shared: bool) -> None:
        self.store.packed.place("shared" if is_shared else "private")

    def place_in_file(self, file: int) -> None:
        self.store.packed.place_in_file(file, is_writable=False)
        self.store.say_whole()

    def fill(self, progress: Progress | None = None) -> None:
        """Raises CheckpointError when values are damaged."""
        self.store.fill(min(self.limits.num_threads, os.cpu_count() or 1), progress)

    def memory(self) -> NDArray[np.uint8]:
        return self.store.packed.memory()

    def start(self) -> "CpuExecutable":
        """Plan the buffers, take memory for them and for the KV pool, and start the threads.

        Raises SetupError when the machine or the limits do not allow it.
        """
        limits = self.limits
        try:
            return CpuExecutable(self)
        except ValueError as error:
            raise SetupError(f"the cpu back end cannot run this: {error}") from error
        except MemoryError as error:
            raise SetupError(
                f"no memory for {limits.num_blocks} KV blocks and {limits.max_tokens} tokens a step: lower one of them"
            ) from error
        except RuntimeError as error:  # of the system, which gives no more threads
            raise SetupError(f"cannot start {limits.num_threads} threads ({error}): ask for fewer") from error


class CpuExecutable:
    """A program with its packed weights, its KV pool and its threads."""

    def __init__(self, packed: CpuPackedProgram) -> None:
        program, store, limits = packed.program, packed.store, packed.limits
        stages = [stage for stage, _ in packed.stages]
        memory = ActivationMemory.plan(stages, limits, _native.quantized_bytes, _native.PRIVATE_ROWS)
        native = _native.Program(
            store.packed,
            isa=packed.isa,
            max_tokens=limits.max_tokens,
            max_samples=limits.max_samples,
            max_sequences=limits.max_sequences,
            max_blocks_per_sequence=limits.max_blocks_per_sequence,
            num_blocks=limits.num_blocks,
            block_tokens=limits.block_tokens,
            num_threads=limits.num_threads,
            caches=[(cache.num_kv_heads, cache.head_dim, cache.has_values) for cache in padded_caches(program)],
            kv_format=packed.kv_format,
            activation_bytes=memory.shared_bytes,
            private_bytes=memory.private_bytes,
        )
        resident = None if limits.expert_bytes is None else ResidentExperts(store, limits.expert_bytes)
        recorder = Recorder(_native.Builder(native), store, memory, resident)
        for stage in stages:
            recorder.record(stage)
            native.need(store.num_needed(weights_of(stage)))
        embeddings = min((op.table.shape[0] for op in program.ops if isinstance(op, Embed)), default=0)
        native.finish(memory.shared[Buffer(program.logits, "float")], program.logits.cols, embeddings)
        if resident is not None:
            resident.start(limits.num_threads)
        self.resident_experts = resident
        self._stages = stages
        self._expert_loads = recorder.experts.loads
        self._block_tokens = limits.block_tokens
        self._stage_times = StageTimes(program, packed.stages, ProgramCosts(program, packed.realisation))
        self._store = store
        if store.is_whole:
            store.packed.map_in()  # else the first steps would, of which the step-time model learns
        self._kv_bytes_per_block = native.block_bytes
        self._native: _native.Program | None = native
        self._masks = native.masks
        self._outputs = SampleOutputs(
            token_ids=np.zeros(limits.max_samples, np.int32),
            logprobs=np.zeros(limits.max_samples, np.float32),
            top_ids=np.zeros((limits.max_samples, MAX_TOP_LOGPROBS), np.int32),
            top_logprobs=np.zeros((limits.max_samples, MAX_TOP_LOGPROBS), np.float32),
        )
        self._native_outputs = _native.Samples(
            self._outputs.token_ids, self._outputs.logprobs, self._outputs.top_ids, self._outputs.top_logprobs
        )
        self._bound: _Bound | None = None

    @property
    def kv_bytes_per_block(self) -> int:
        return self._kv_bytes_per_block

    @property
    def kv_pool(self) -> NDArray[np.uint8]:
        """The blocks themselves, [num_blocks, kv_bytes_per_block] (layout: csrc/kernels/layout.h)."""
        return self._program.pool()

    @property
    def weight_bytes(self) -> int:
        return self._store.packed.num_bytes

    @property
    def is_whole(self) -> bool:
        """Whether all weights are there. Until then a stage may wait for its own."""
        return self._store.is_whole

    @property
    def expert_loads(self) -> tuple[NDArray[np.uint64], ...]:
        """Of each mixture of experts, in order, how many rows each expert has computed; may be read at any time."""
        return self._expert_loads.read()

    @property
    def masks(self) -> _native.Masks:
        return self._masks

    @property
    def shared_reads(self) -> int:
        """Tokens that sequences of the last step saw in blocks which another sequence read for them."""
        return self._program.shared_reads

    def run(self, step: StepInputs, sampling: SamplingInputs) -> SampleOutputs:
        """Compute a step and draw the samples; the result is valid until the next call.

        Raises EngineError when the step or the sampling breaks the limits; nothing is computed then.
        """
        try:
            bound = self._bind(step, sampling)
            self._program.draw(bound.native_step, bound.native_sampling, self._native_outputs)
        except (ValueError, RuntimeError) as error:
            raise _told_as_ours(error) from error
        return bound.outputs

    def run_timed(self, step: StepInputs, sampling: SamplingInputs) -> tuple[SampleOutputs, tuple[OpTime, ...]]:
        """As `run`, and where its time went, by kind of op. Raises what `run` raises."""
        before = self.expert_loads
        try:
            bound = self._bind(step, sampling)
            busy_s, waited_s = self._program.draw_timed(bound.native_step, bound.native_sampling, self._native_outputs)
        except (ValueError, RuntimeError) as error:
            raise _told_as_ours(error) from error
        chosen = [int((now > then).sum()) for now, then in zip(self.expert_loads, before, strict=True)]
        work = StepWork.of(step, self._block_tokens, chosen)
        return bound.outputs, self._stage_times.of(work, busy_s, waited_s)

    def _bind(self, step: StepInputs, sampling: SamplingInputs) -> "_Bound":
        """What native code needs to know of the arrays: the same as last time where they are the same."""
        bound = self._bound
        if bound is None or bound.step is not step or bound.sampling is not sampling:
            rows, outputs = len(step.sample_rows), self._outputs
            views = SampleOutputs(
                outputs.token_ids[:rows], outputs.logprobs[:rows], outputs.top_ids[:rows], outputs.top_logprobs[:rows]
            )
            bound = _Bound(step, sampling, _native_step(step), _native_sampling(sampling), views)
            self._bound = bound
        return bound

    def logits(self, step: StepInputs) -> NDArray[np.float32]:
        """Compute a step; the logits [S, vocab] of its sampled rows, valid until the next call."""
        try:
            self._program.compute(_native_step(step))
        except (ValueError, RuntimeError) as error:
            raise _told_as_ours(error) from error
        return self._program.logits()[: len(step.sample_rows)]

    def profile(self, step: StepInputs) -> list[tuple[Stage, float]]:
        """Compute a step without drawing; the seconds that each stage took, in order."""
        return list(zip(self._stages, self._program.profile(_native_step(step)), strict=True))

    def copy_block(self, source: int, target: int, num_tokens: int) -> None:
        """Copy the first `num_tokens` rows of a block to another, in every cache."""
        try:
            self._program.copy_block(source, target, num_tokens)
        except ValueError as error:
            raise EngineError(f"the cpu back end refused a copy: {error}") from error

    @property
    def kv_resident_bytes(self) -> int:
        """Physical memory under the KV pool, as the system counts it. May be read at any time; none after the end."""
        native = self._native
        return 0 if native is None else native.resident_pool_bytes

    def commit(self, blocks: range) -> None:
        """Keep the memory of consecutive blocks until they are released; they get it as they are touched."""
        try:
            self._program.commit(blocks.start, len(blocks))
        except ValueError as error:
            raise EngineError(f"the cpu back end refused to commit blocks: {error}") from error

    def populate(self, blocks: range) -> None:
        """Get memory for consecutive blocks now. Raises EngineError when the system has none left."""
        try:
            self._program.populate(blocks.start, len(blocks))
        except ValueError as error:
            raise EngineError(f"the cpu back end refused to populate blocks: {error}") from error
        except MemoryError as error:
            raise EngineError(
                f"the system has no memory for {len(blocks)} more KV blocks of {self._kv_bytes_per_block:,} bytes: "
                "lower --kv-memory, or stop what else takes memory"
            ) from error

    def release(self, blocks: range) -> None:
        """Give the memory of consecutive blocks back, as far as it fills pages that no committed block lies in."""
        try:
            self._program.release(blocks.start, len(blocks))
        except ValueError as error:
            raise EngineError(f"the cpu back end refused to release blocks: {error}") from error

    def close(self) -> None:
        """End the threads and give back weights and KV pool. Logits that are still referenced keep them alive."""
        self._native = None
        if self.resident_experts is not None:
            self.resident_experts.close()

    @property
    def _program(self) -> _native.Program:
        if self._native is None:
            raise EngineError("the executable is closed")
        return self._native


def _tile_bytes(program: Program, kv_format: KvFormat) -> list[int]:
    """Of each cache, what as many positions take as lie together."""
    return [
        (2 if cache.has_values else 1) * cache.num_kv_heads * _native.kv_tile_bytes(kv_format, cache.head_dim)
        for cache in padded_caches(program)
    ]


def _told_as_ours(error: ValueError | RuntimeError) -> TailraceError:
    """What native code says of a step that it did not compute."""
    if isinstance(error, ValueError):
        return EngineError(f"the cpu back end refused a step: {error}")
    return CheckpointError(f"a step needs an expert that cannot be loaded: {error}")


@dataclass(frozen=True, slots=True)
class _Bound:
    """A step and its sampling as native code knows them: pointers into arrays whose values may change."""

    step: StepInputs
    sampling: SamplingInputs
    native_step: _native.Step
    native_sampling: _native.Sampling
    outputs: SampleOutputs


def _native_step(step: StepInputs) -> _native.Step:
    return _native.Step(step.token_ids, step.row_starts, step.starts, step.slots, step.block_tables, step.sample_rows)


def _native_sampling(sampling: SamplingInputs) -> _native.Sampling:
    return _native.Sampling(
        sampling.temperature,
        sampling.top_p,
        sampling.top_k,
        sampling.min_p,
        sampling.seed,
        sampling.position,
        sampling.num_logprobs,
        sampling.repetition_penalty,
        sampling.frequency_penalty,
        sampling.presence_penalty,
        sampling.history_starts,
        sampling.history_ids,
        sampling.history_prompt_tokens,
        sampling.bias_starts,
        sampling.bias_ids,
        sampling.bias_values,
        sampling.mask_rows,
    )
