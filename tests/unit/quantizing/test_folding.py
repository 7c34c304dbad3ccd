"""Scales that are folded into what comes before leave a model what it was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tailrace.quantizing.folding import Fold, folds
from tailrace.quantizing.forward import Forward
from tailrace.quantizing.scaling import Scaling
from tailrace.quantizing.segments import segments
from tailrace.quantizing.source import Source, open_source
from tailrace.weights.load import open_checkpoint
from tailrace.weights.stored import FileTensor
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import TINY, write_directory, write_gguf

TOKEN_IDS = np.random.default_rng(0).integers(0, 48, (2, 30))
QWEN2 = replace(TINY, architecture="qwen2", qkv_bias=True)
MODELS: dict[str, Callable[[Path], object]] = {
    "llama gguf": write_gguf,
    "qwen2 directory": lambda path: write_directory(path, QWEN2),
    "MoE-16B gguf": lambda path: write_deepseek_gguf(path, DEEPSEEK["MoE-16B"]),
    "V2-Lite directory": lambda path: write_deepseek(path, DEEPSEEK["V2-Lite"]),
    "V3 gguf": lambda path: write_deepseek_gguf(path, DEEPSEEK["V3"]),
    "V3 old gguf": lambda path: write_deepseek_gguf(path, DEEPSEEK["V3"], is_old=True),
    "V3.2 directory": lambda path: write_deepseek(path, DEEPSEEK["V3.2"]),
}


@pytest.fixture(params=MODELS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    MODELS[request.param](tmp_path / "model")
    return open_source(open_checkpoint(str(tmp_path / "model")))


def all_folds(source: Source) -> list[Fold]:
    return [fold for ops in segments(source.program.ops[:-1]) for fold in folds(ops)]


def test_logits_stay_what_they_were_to_a_ten_thousandth(source: Source) -> None:
    rng, scaling = np.random.default_rng(5), Scaling()
    for fold in all_folds(source):
        scaling.add(fold, rng.uniform(0.5, 2, fold.size).astype(np.float32))
    scaled = scaling.scaled(source, list(source.places))
    before, after = logits(source, {}), logits(source, scaled)

    assert scaled
    assert np.abs(after - before).max() < 1e-4 * np.abs(before).max()


def logits(source: Source, made: dict[str, FileTensor]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    forward = Forward(TOKEN_IDS, source.reader(made))
    forward.run(source.program.ops)
    return forward.tensors[source.program.logits.index]


def test_every_linear_map_but_the_head_takes_scaled_numbers_once(source: Source) -> None:
    """But for k_b, which takes latents by its rows."""
    taken = [place for fold in all_folds(source) for place in fold.multiplied]
    matrices = {name for name, weight in source.program.weights.items() if len(weight.shape) == 2}
    aside = {name for name in matrices if name in ("embed", "head") or name.endswith(".k_b")}

    assert len(taken) == len(set(taken))
    assert {weight for weight, _ in taken} == matrices - aside


def test_a_router_is_scaled_with_the_experts_that_read_the_same_norm(tmp_path: Path) -> None:
    write_deepseek(tmp_path / "model", DEEPSEEK["V3"])
    source = open_source(open_checkpoint(str(tmp_path / "model")))
    (fold,) = (fold for fold in all_folds(source) if fold.divided == (("layers.1.mlp_norm", 0),))

    experts = [(f"layers.1.experts.{part}", expert) for part in ("gate", "up") for expert in range(8)]
    assert set(fold.multiplied) == {
        ("layers.1.router", 0),
        ("layers.1.shared.gate", 0),
        ("layers.1.shared.up", 0),
        *experts,
    }
