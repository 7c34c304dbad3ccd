"""Hands stages to the native program, with weights and buffers resolved to numbers."""

from tailrace.ops import _native
from tailrace.ops.cpu.activations import ActivationMemory, Codes
from tailrace.ops.cpu.expert_recorder import ExpertRecorder
from tailrace.ops.cpu.index_recorder import IndexRecorder
from tailrace.ops.cpu.latent_recorder import LatentRecorder
from tailrace.ops.cpu.residency import ResidentExperts
from tailrace.ops.cpu.stages import (
    AnglesStage,
    AttentionStage,
    Buffer,
    DispatchStage,
    EmbedStage,
    ExpertDownStage,
    ExpertGatedStage,
    GatedStage,
    GatherStage,
    GemmStage,
    HeadGemmStage,
    IndexKeyStage,
    IndexScoreStage,
    LatentAttentionStage,
    LatentStoreStage,
    NormStage,
    QuantizeStage,
    RopeStage,
    RouteStage,
    SelectStage,
    Stage,
    SwiGluStage,
)
from tailrace.ops.cpu.store import WeightStore

__all__ = ["Recorder"]


class Recorder:
    """Hands stages to the native program, with weights and buffers resolved to numbers."""

    def __init__(
        self,
        builder: _native.Builder,
        store: WeightStore,
        memory: ActivationMemory,
        resident: ResidentExperts | None = None,
    ) -> None:
        self._builder = builder
        self._store = store
        self._memory = memory
        self._offsets = memory.shared
        self._index = IndexRecorder(builder, store, memory.shared)
        self.experts = ExpertRecorder(builder, store, memory, resident)
        self._latent = LatentRecorder(builder, store, memory)

    def record(self, stage: Stage) -> None:
        match stage:
            case EmbedStage(table=table, out=out):
                self._builder.embed(self._store.id_of(table), self._offsets[out])
            case GemmStage():
                self._gemm(stage)
            case GatedStage():
                self._gated(stage)
            case RopeStage():
                self._rope(stage)
            case AttentionStage():
                self._attention(stage)
            case LatentStoreStage() | HeadGemmStage() | LatentAttentionStage():
                self._latent.record(stage)
            case IndexKeyStage() | IndexScoreStage() | SelectStage():
                self._index.record(stage)
            case AnglesStage(rope=rope, out=out):
                self._builder.angles(list(rope.inv_freq), rope.scale, self._offsets[out])
            case RouteStage() | DispatchStage() | ExpertGatedStage() | ExpertDownStage():
                self.experts.record(stage)
            case _:
                self._record_rows(stage)

    def _record_rows(self, stage: NormStage | QuantizeStage | SwiGluStage | GatherStage) -> None:
        match stage:
            case NormStage():
                self._norm(stage)
            case QuantizeStage(x=x, codes=codes):
                self._builder.quantize(_is_sampled(x), x.tensor.cols, self._offsets[x], self._memory.codes(codes))
            case SwiGluStage(x=x, cols=cols, out=out, codes=codes):
                self._builder.swiglu(_is_sampled(x), cols, self._offsets[x], self._offset(out), self._codes(codes))
            case GatherStage(x=x, out=out):
                self._builder.gather(x.tensor.cols, self._offsets[x], self._offsets[out])

    def _gated(self, stage: GatedStage) -> None:
        gate, up = self._store.id_of(stage.gate), self._store.id_of(stage.up)
        self._builder.gated(
            _is_sampled(stage.x), self._memory.codes(stage.x), gate, up, self._memory.codes(stage.codes)
        )

    def _offset(self, buffer: Buffer | None) -> int | None:
        return None if buffer is None else self._offsets[buffer]

    def _codes(self, buffer: Buffer | None) -> Codes | None:
        return None if buffer is None else self._memory.codes(buffer)

    def _norm(self, stage: NormStage) -> None:
        self._builder.norm(
            _is_sampled(stage.x),
            stage.x.tensor.cols,
            self._offsets[stage.x],
            self._store.id_of(stage.weight),
            stage.eps,
            self._offset(stage.out),
            self._codes(stage.codes),
        )

    def _gemm(self, stage: GemmStage) -> None:
        self._builder.gemm(
            _is_sampled(stage.out),
            self._offset(stage.x),
            self._codes(stage.codes),
            [self._store.id_of(weight) for weight in stage.weights],
            self._store.bias(stage.weights, stage.biases),
            self._offset(stage.residual),
            self._offsets[stage.out],
        )

    def _rope(self, stage: RopeStage) -> None:
        op = stage.op
        self._builder.rope(
            self._offsets[stage.qkv],
            self._offsets[stage.angles],
            len(op.rope.inv_freq),
            op.rope.interleaved,
            op.cache,
            op.num_heads,
            None if op.q_norm is None else self._store.id_of(op.q_norm),
            None if op.k_norm is None else self._store.id_of(op.k_norm),
            op.eps,
            self._offsets[stage.out],
        )

    def _attention(self, stage: AttentionStage) -> None:
        op = stage.op
        self._builder.attention(
            self._offsets[stage.q],
            op.cache,
            op.num_heads,
            op.scale,
            op.window,
            self._offsets[stage.out],
            self._codes(stage.codes),
        )


def _is_sampled(buffer: Buffer) -> bool:
    return buffer.tensor.rows == "samples"
