"""A Hugging Face directory as a checkpoint."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.registry import build_program
from tailrace.weights.hf_checkpoint import open_directory
from tests.unit.weights.model_files import TINY, write_directory

INDEX = "model.safetensors.index.json"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "tiny-model"


@pytest.mark.parametrize("num_files", [1, 3])
def test_every_tensor_is_found_whatever_file_it_lies_in(directory: Path, num_files: int) -> None:
    values = write_directory(directory, num_files=num_files)
    checkpoint = open_directory(directory)
    assert checkpoint.name == "tiny-model"
    assert checkpoint.source == directory
    assert checkpoint.config == TINY
    assert checkpoint.tokenizer == directory / "tokenizer.json"
    assert (checkpoint.bos_id, checkpoint.eos_ids) == (1, (2,))
    assert checkpoint.tensors.keys() == values.keys()
    for name, expected in values.items():
        np.testing.assert_array_equal(checkpoint.tensors[name].dequantize(), expected)
    assert set(checkpoint.stored_formats.values()) == {"F32"}


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_the_models_find_each_weight_they_ask_for(directory: Path, architecture: str) -> None:
    features = {"llama": TINY, "qwen2": dataclasses.replace(TINY, architecture="qwen2", qkv_bias=True)}
    features["qwen3"] = dataclasses.replace(TINY, architecture="qwen3", qk_norm=True, tie_word_embeddings=True)
    write_directory(directory, features[architecture])
    checkpoint = open_directory(directory)
    weights = build_program(checkpoint.config).weights
    assert {name: weight.shape for name, weight in weights.items()} == {
        name: tensor.shape for name, tensor in checkpoint.tensors.items()
    }


def test_a_tied_head_saved_twice_and_old_frequencies_are_passed_over(directory: Path) -> None:
    extra = {
        "lm_head.weight": np.zeros((48, 64), np.float32),
        "model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(8, np.float32),
    }
    write_directory(directory, dataclasses.replace(TINY, tie_word_embeddings=True), extra=extra)
    assert "head" not in open_directory(directory).tensors


def test_a_weight_without_a_place_is_refused(directory: Path) -> None:
    write_directory(directory, extra={"model.layers.0.self_attn.sinks": np.zeros(4, np.float32)})
    with pytest.raises(UnsupportedModel, match=r"tensor 'model\.layers\.0\.self_attn\.sinks' has no place in a llama"):
        open_directory(directory)


def test_a_layer_too_many_names_the_setting(directory: Path) -> None:
    write_directory(directory, settings={"num_hidden_layers": 1})
    with pytest.raises(
        UnsupportedModel,
        match=r"'model\.layers\.1\..* no place in a llama model: the model ends with layer 0, says num_hidden",
    ):
        open_directory(directory)


def test_a_missing_weight_is_named(directory: Path) -> None:
    write_directory(directory, settings={"num_hidden_layers": 3})
    with pytest.raises(CheckpointError, match=r"tiny-model: tensor 'model\.layers\.2\.\w+\.weight' is missing"):
        open_directory(directory)


def test_a_weight_of_another_shape_is_named(directory: Path) -> None:
    write_directory(directory, settings={"intermediate_size": 95})
    with pytest.raises(
        CheckpointError, match=r"'model\.layers\.0\.mlp.*has shape \[96, 64\], the config asks for \[95"
    ):
        open_directory(directory)


def test_the_only_file_may_have_any_name(directory: Path) -> None:
    write_directory(directory)
    (directory / "model.safetensors").rename(directory / "weights.safetensors")
    assert open_directory(directory).config == TINY


def test_several_files_need_an_index(directory: Path) -> None:
    write_directory(directory, num_files=2)
    (directory / INDEX).unlink()
    with pytest.raises(CheckpointError, match=rf"2 safetensors files, and no {INDEX}"):
        open_directory(directory)


@pytest.mark.parametrize(
    ("left", "error", "reason"),
    [
        ("pytorch_model.bin", UnsupportedModel, "PyTorch pickles .*convert them to safetensors"),
        ("README.md", CheckpointError, "no safetensors file; fetch the model again"),
    ],
)
def test_a_directory_without_weights_says_what_to_do(
    directory: Path, left: str, error: type[Exception], reason: str
) -> None:
    write_directory(directory)
    (directory / "model.safetensors").rename(directory / left)
    with pytest.raises(error, match=reason):
        open_directory(directory)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "model.bin", 5])
def test_an_index_does_not_lead_out_of_its_directory(directory: Path, name: object) -> None:
    write_directory(directory)
    (directory / INDEX).write_text(json.dumps({"weight_map": {"model.norm.weight": name}}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="is not the name of a safetensors file beside it"):
        open_directory(directory)


def test_an_index_that_is_wrong_about_a_file_is_refused(directory: Path) -> None:
    write_directory(directory, num_files=2)
    index = json.loads((directory / INDEX).read_text(encoding="utf-8"))
    first, second = sorted(set(index["weight_map"].values()))
    index["weight_map"] = dict.fromkeys(index["weight_map"], first) | {"model.norm.weight": second}
    (directory / INDEX).write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"is missing, which {INDEX} places here"):
        open_directory(directory)


def test_an_index_to_a_file_that_is_not_there_names_the_file(directory: Path) -> None:
    write_directory(directory, num_files=2)
    (directory / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00002\.safetensors: no such file"):
        open_directory(directory)


def test_a_directory_without_a_config_is_refused(directory: Path) -> None:
    directory.mkdir()
    with pytest.raises(CheckpointError, match=r"config\.json: cannot be read: No such file"):
        open_directory(directory)
