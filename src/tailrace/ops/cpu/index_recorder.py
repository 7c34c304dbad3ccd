"""Hands the stages of lightning indexers to the native program."""

from collections.abc import Mapping

from tailrace.ops import _native
from tailrace.ops.cpu.stages import Buffer, IndexKeyStage, IndexScoreStage, SelectStage
from tailrace.ops.cpu.store import WeightStore

__all__ = ["IndexRecorder"]

_Index = tuple[
    int, int, int, int, bool, int, int, int
]  # as the builder wants what scoring and selecting have in common


class IndexRecorder:
    """Hands the stages of lightning indexers to the native program; they share the room for scores."""

    def __init__(self, builder: _native.Builder, store: WeightStore, offsets: Mapping[Buffer, int]) -> None:
        self._builder = builder
        self._store = store
        self._offsets = offsets
        self._index_builder: _native.IndexBuilder | None = None

    def record(self, stage: IndexKeyStage | IndexScoreStage | SelectStage) -> None:
        if self._index_builder is None:
            self._index_builder = _native.IndexBuilder(self._builder)
        match stage:
            case IndexKeyStage():
                self._keys(self._index_builder, stage)
            case IndexScoreStage():
                self._index_builder.scores(*self._index(stage))
            case SelectStage(out=out):
                self._index_builder.select(*self._index(stage), self._offsets[out])

    def _keys(self, builder: _native.IndexBuilder, stage: IndexKeyStage) -> None:
        op = stage.op
        builder.keys(
            self._offsets[stage.k],
            self._offsets[stage.angles],
            len(op.rope.inv_freq),
            op.rope.interleaved,
            op.cache,
            self._store.id_of(op.norm),
            self._store.id_of(op.norm_bias),
            op.eps,
        )

    def _index(self, stage: IndexScoreStage | SelectStage) -> _Index:
        op = stage.op
        return (
            self._offsets[stage.q],
            self._offsets[stage.head_weights],
            self._offsets[stage.angles],
            len(op.rope.inv_freq),
            op.rope.interleaved,
            op.cache,
            op.num_heads,
            op.top_k,
        )
