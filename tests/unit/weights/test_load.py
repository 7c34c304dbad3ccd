"""From a model argument to a checkpoint."""

from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError, SetupError
from tailrace.models.registry import build_program
from tailrace.weights.load import open_checkpoint
from tests.unit.weights.model_files import TINY, write_directory, write_gguf


@pytest.mark.parametrize("model", [None, "default"])
def test_no_model_is_the_default_model(model: str | None) -> None:
    checkpoint = open_checkpoint(model)
    config = checkpoint.config
    assert checkpoint.name == "SmolLM2-135M-Instruct"
    assert (config.num_layers, config.hidden_size, config.num_heads, config.num_kv_heads) == (30, 576, 9, 3)
    assert config.tie_word_embeddings
    assert config.rope_interleaved
    assert checkpoint.tensors.keys() == build_program(config).weights.keys()
    assert {checkpoint.stored_formats[name] for name in ("embed", "layers.29.down")} == {"Q8_0", "Q4_1"}
    assert checkpoint.tensors["embed"].dequantize().std() == pytest.approx(0.1, abs=0.05)


def test_a_gguf_file_is_opened_whatever_its_name(tmp_path: Path) -> None:
    values = write_gguf(tmp_path / "tiny.Q8_0.gguf")
    assert open_checkpoint(str(tmp_path / "tiny.Q8_0.gguf")).name == "tiny.Q8_0"
    blob = (tmp_path / "tiny.Q8_0.gguf").rename(tmp_path / "sha256-abc")
    checkpoint = open_checkpoint(str(blob))
    assert checkpoint.source == blob
    np.testing.assert_array_equal(checkpoint.tensors["norm"].dequantize(), values["norm"])


def test_a_hugging_face_directory_is_opened(tmp_path: Path) -> None:
    write_directory(tmp_path / "tiny")
    checkpoint = open_checkpoint(str(tmp_path / "tiny"), quantize="int8")
    assert (checkpoint.name, checkpoint.config) == ("tiny", TINY)
    assert checkpoint.tensors["embed"].format == "q8"


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_directory(tmp_path / "tiny")
    assert open_checkpoint("~/tiny").name == "tiny"


def test_a_directory_that_holds_one_gguf_file_is_that_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "only.gguf")
    assert open_checkpoint(str(tmp_path)).name == "only"


def test_a_directory_without_a_config_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"is no model directory: it has no config\.json; name one that has, or a GGUF"
    ):
        open_checkpoint(str(tmp_path))
    write_gguf(tmp_path / "one.gguf")
    write_gguf(tmp_path / "two.gguf")
    with pytest.raises(SetupError, match=r"no config\.json; name one of its 2 GGUF files"):
        open_checkpoint(str(tmp_path))


@pytest.mark.parametrize("model", ["nowhere", "./a/b", "/no/such/model", "a/b.gguf", "", "x\0y"])
def test_a_name_that_leads_nowhere_says_what_a_model_is(model: str) -> None:
    with pytest.raises(SetupError, match="is neither a file nor a directory here, nor a hub id"):
        open_checkpoint(model)


@pytest.mark.parametrize("model", ["x" * 5000, "~nobody-has-this-name/model"])
def test_a_name_that_cannot_even_be_looked_at_is_an_error_of_ours(model: str) -> None:
    with pytest.raises(SetupError, match="cannot be looked at"):
        open_checkpoint(model)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no model", encoding="utf-8")
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        open_checkpoint(str(tmp_path / "notes.txt"))
