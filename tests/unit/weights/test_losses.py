from pathlib import Path

import pytest

from tailrace.ops.source import source_of
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.losses import losses
from tests.unit.weights.model_files import GgmlType, write_gguf


def test_what_was_lost_is_told_by_format_whichever_way_tensors_were_read(tmp_path: Path) -> None:
    kinds = {"layers.0.up": GgmlType.Q5_1, "layers.1.up": GgmlType.Q5_1, "layers.0.down": GgmlType.F16}
    write_gguf(tmp_path / "m.gguf", kinds=kinds)
    whole, parts = open_gguf(tmp_path / "m.gguf", "int8"), open_gguf(tmp_path / "m.gguf", "int8")
    assert losses(whole) == []
    for name in whole.tensors:
        whole.tensors[name]
    source = source_of(parts.tensors)
    for name in parts.tensors:
        shape = source.form(name).shape
        for begin in range(0, shape[0], 32) if len(shape) == 2 else ():
            source.part(name, begin, min(begin + 32, shape[0]))
    found = {loss.stored_format: loss for loss in losses(whole)}
    assert (found["Q5_1"].num_tensors, found["F16"].num_tensors) == (2, 1)
    for loss in losses(parts):
        assert 0.0 < loss.error < 0.02
        assert loss.num_tensors == found[loss.stored_format].num_tensors
        assert loss.error == pytest.approx(found[loss.stored_format].error, rel=0.1)
