import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tailrace.errors import SetupError
from tailrace.models.config import ModelConfig, RopeScaling
from tailrace.models.registry import build_program
from tailrace.ops.load import load_backend
from tailrace.ops.packed import PackedTensor
from tailrace.ops.program import Routing
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tailrace.weights.synthetic import SyntheticFormat, SyntheticTensors
from tailrace.weights.synthetic_gguf import write_gguf
from tailrace.weights.synthetic_shapes import SHAPES
from tests.support.steps import limits, teacher_forced

TOY = replace(SHAPES["toy-v2-lite"], num_layers=3)
assert TOY.latent is not None
assert TOY.mixture is not None

_DENSE = replace(TOY, architecture="llama", latent=None, mixture=None, num_kv_heads=2, rope_scaling=None)
CONFIGS = {
    "v2-lite": TOY,
    "v2": replace(
        TOY,
        latent=replace(TOY.latent, query_latent_dim=96),
        mixture=replace(TOY.mixture, routing=Routing(16, 4, "softmax", num_groups=4, top_groups=2, scale=4.0)),
    ),
    "v3": replace(
        TOY,
        architecture="deepseek_v3",
        latent=replace(TOY.latent, query_latent_dim=96),
        mixture=replace(
            TOY.mixture,
            routing=Routing(
                16, 4, "sigmoid", num_groups=4, top_groups=2, group_rank="top two", normalize=True, scale=2.5
            ),
            has_bias=True,
        ),
    ),
    "moe": replace(_DENSE, architecture="deepseek", mixture=TOY.mixture, num_kv_heads=4),
    "coder": replace(_DENSE, rope_scaling=RopeScaling("linear", factor=4.0)),
    "llama 3": replace(
        _DENSE, rope_scaling=RopeScaling("llama3", factor=8.0, original_max_tokens=256, high_freq_factor=4.0)
    ),
    "qwen2": replace(_DENSE, architecture="qwen2", qkv_bias=True, rope_interleaved=False),
    "qwen3": replace(
        _DENSE,
        architecture="qwen3",
        qk_norm=True,
        rope_interleaved=False,
        rope_scaling=RopeScaling("yarn", factor=4.0, original_max_tokens=1024),
    ),
}


def logits(config: ModelConfig, tensors: Mapping[str, PackedTensor]) -> NDArray[np.float32]:
    of = limits(max_sequences=1)
    executable = load_backend("reference").load(build_program(config), tensors, of)
    return teacher_forced(executable, of, range(3, 900, 31), chunk_tokens=64)


def written(tensors: SyntheticTensors, path: Path) -> Checkpoint:
    write_gguf(tensors, path, lambda _done, _total: None)
    return open_checkpoint(str(path))


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    return CONFIGS[request.param]


def test_the_file_holds_the_weights_and_computes_the_same(config: ModelConfig, tmp_path: Path) -> None:
    tensors = SyntheticTensors(config, "int4", seed=1)
    checkpoint = written(tensors, tmp_path / "model.gguf")

    assert checkpoint.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        read = checkpoint.tensors[name]
        assert read.format == tensor.format
        assert np.array_equal(read.dequantize(), tensor.dequantize())
    np.testing.assert_allclose(
        logits(checkpoint.config, checkpoint.tensors), logits(config, tensors), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("wanted", "types"), [("bf16", {"BF16", "F32"}), ("int8", {"Q8_0", "F32"}), ("int4", {"Q4_0", "Q8_0", "F32"})]
)
def test_each_format_has_its_type(wanted: SyntheticFormat, types: set[str], tmp_path: Path) -> None:
    checkpoint = written(SyntheticTensors(TOY, wanted, seed=0), tmp_path / "model.gguf")
    assert set(checkpoint.stored_formats.values()) == types


def test_the_file_ends_answers_at_a_token_that_no_text_holds(tmp_path: Path) -> None:
    checkpoint = written(SyntheticTensors(TOY, "int4", seed=0), tmp_path / "model.gguf")
    assert (checkpoint.bos_id, checkpoint.eos_ids, checkpoint.add_bos) == (1022, (1023,), False)


def test_progress_counts_tensors(tmp_path: Path) -> None:
    tensors = SyntheticTensors(TOY, "int4", seed=0)
    seen: list[tuple[int, int]] = []
    write_gguf(tensors, tmp_path / "model.gguf", lambda done, total: seen.append((done, total)))
    assert seen == [(done, len(tensors)) for done in range(1, len(tensors) + 1)]


def test_what_the_disk_will_not_hold_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=8_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(SetupError, match=r"takes 9\.\d GB, and 8\.0 GB of the disk are free"):
        write_gguf(SyntheticTensors(SHAPES["deepseek-v2-lite"], "int4", seed=0), tmp_path / "x", lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot write .*/nowhere/x: No such file or directory"):
        write_gguf(SyntheticTensors(TOY, "int4", seed=0), tmp_path / "nowhere" / "x", lambda *_: None)
