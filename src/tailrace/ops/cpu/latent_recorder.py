"""Hands the stages of latent attention to the native program."""

from tailrace.ops import _native
from tailrace.ops.cpu.activations import ActivationMemory
from tailrace.ops.cpu.stages import HeadGemmStage, LatentAttentionStage, LatentStoreStage
from tailrace.ops.cpu.store import WeightStore

__all__ = ["LatentRecorder"]


class LatentRecorder:
    """Hands the stages of latent attention to the native program."""

    def __init__(self, builder: _native.Builder, store: WeightStore, memory: ActivationMemory) -> None:
        self._gemm_builder = builder
        self._builder = _native.LatentBuilder(builder)
        self._store = store
        self._memory = memory

    def record(self, stage: LatentStoreStage | HeadGemmStage | LatentAttentionStage) -> None:
        match stage:
            case LatentStoreStage():
                self._record_store(stage)
            case HeadGemmStage():
                self._record_gemm(stage)
            case LatentAttentionStage():
                self._record_attention(stage)

    def _record_store(self, stage: LatentStoreStage) -> None:
        op, offsets = stage.op, self._memory.shared
        self._builder.store(
            offsets[stage.q],
            offsets[stage.latent],
            offsets[stage.angles],
            op.rope_dim,
            op.rope.interleaved,
            op.cache,
            op.num_heads,
            op.plain_dim,
            op.latent_dim,
            self._store.id_of(op.norm),
            op.eps,
            offsets[stage.queries],
            None if stage.plain is None else self._memory.codes(stage.plain),
        )

    def _record_gemm(self, stage: HeadGemmStage) -> None:
        is_quantized = stage.x.form == "int8"
        self._gemm_builder.head_gemm(
            None if is_quantized else self._memory.shared[stage.x],
            self._memory.codes(stage.x) if is_quantized else None,
            self._store.ids_of(stage.weight),
            stage.x_stride,
            stage.out_stride,
            self._memory.shared[stage.out],
        )

    def _record_attention(self, stage: LatentAttentionStage) -> None:
        op, offsets = stage.op, self._memory.shared
        self._builder.attention(
            offsets[stage.queries],
            op.cache,
            op.num_heads,
            op.latent_dim,
            op.scale,
            None if stage.selection is None else offsets[stage.selection],
            0 if op.selection is None else op.selection.cols,
            offsets[stage.out],
            None if stage.codes is None else self._memory.codes(stage.codes),
        )
