"""Weights for multi-token prediction: left out unless asked for, in either kind of file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.load import open_checkpoint
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf

CONFIG = DEEPSEEK["V3 with MTP"]
OWN = {"enorm", "hnorm", "eh_proj", "shared_head_norm"}


def copies(layer: int) -> dict[str, NDArray[Any]]:
    """What a module repeats of the model: its embedding and its head."""
    table = np.zeros((48, 64), np.float32)
    return {f"model.layers.{layer}.embed_tokens.weight": table, f"model.layers.{layer}.shared_head.head.weight": table}


def test_modules_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    write_deepseek(tmp_path / "tiny", CONFIG, extra=copies(3) | {"mtp.0.anything": np.zeros(4, np.float32)})
    write_deepseek_gguf(tmp_path / "tiny.gguf", CONFIG)
    for checkpoint in (open_directory(tmp_path / "tiny"), open_gguf(tmp_path / "tiny.gguf")):
        assert checkpoint.config.num_mtp_layers == 2
        assert checkpoint.config.num_layers == 3
        assert not any(name.startswith("mtp.") for name in checkpoint.tensors)


def test_a_module_is_a_block_and_what_joins_it_on(tmp_path: Path) -> None:
    values = write_deepseek(tmp_path, CONFIG, extra=copies(4))
    tensors = open_checkpoint(str(tmp_path), mtp=True).tensors
    block = {name.removeprefix("layers.2.") for name in tensors if name.startswith("layers.2.")}
    assert {name.removeprefix("mtp.1.") for name in tensors if name.startswith("mtp.1.")} == block | OWN
    assert tensors["mtp.0.eh_proj"].shape == (64, 128)
    np.testing.assert_array_equal(tensors["mtp.1.k_b"].dequantize(), values["mtp.1.k_b"])


def test_modules_are_quantised_like_the_model(tmp_path: Path) -> None:
    write_deepseek(tmp_path, CONFIG)
    tensors = open_checkpoint(str(tmp_path), quantize="int4", mtp=True).tensors
    assert (tensors["mtp.0.experts.up"].format, tensors["mtp.0.router"].format) == ("q4", "f32")


def test_modules_that_are_not_there_cannot_be_had(tmp_path: Path) -> None:
    write_deepseek(tmp_path / "tiny", DEEPSEEK["V3"], settings={"num_nextn_predict_layers": 1})
    assert open_directory(tmp_path / "tiny").config.num_mtp_layers == 0
    write_deepseek_gguf(tmp_path / "tiny.gguf", DEEPSEEK["V3"])
    for name in ("tiny", "tiny.gguf"):
        with pytest.raises(CheckpointError, match=r"multi-token prediction is asked for, and no layer from 3 on"):
            open_checkpoint(str(tmp_path / name), mtp=True)


def test_a_module_with_a_part_missing_is_refused_where_it_is_wanted(tmp_path: Path) -> None:
    missing = "model.layers.4.mlp.experts.5.up_proj.weight"
    write_deepseek(tmp_path, CONFIG, left_out=(missing,))
    assert open_directory(tmp_path).config.num_mtp_layers == 2
    with pytest.raises(CheckpointError, match=rf"tensor '{missing}' is missing"):
        open_directory(tmp_path, mtp=True)


def test_layers_behind_the_last_that_predict_nothing_are_no_modules(tmp_path: Path) -> None:
    write_deepseek(tmp_path, CONFIG, settings={"num_hidden_layers": 2})
    with pytest.raises(UnsupportedModel, match=r"tensor 'model\.layers\.\d\..*' has no place in a deepseek_v3 model"):
        open_directory(tmp_path)
