"""The weights that other engines get are ours: read back, they are the same model and the same tokens."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.peers.hf_directory import write_hf_directory
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.support import tiny
from tests.support.text import byte_level_vocabulary

LAYERS = 2


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    vocabulary = byte_level_vocabulary()
    config = replace(tiny.CONFIGS["tied, interleaved"], vocab_size=len(vocabulary.tokens))
    return replace(open_checkpoint(None), config=config, tensors=tiny.random_weights(config), tokenizer=vocabulary)


@pytest.fixture(scope="module")
def copy(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    directory = tmp_path_factory.mktemp("copy")
    write_hf_directory(checkpoint, directory)
    return open_checkpoint(str(directory))


def test_the_config_is_the_same_but_for_the_order_of_rotary_pairs(checkpoint: Checkpoint, copy: Checkpoint) -> None:
    assert copy.config == replace(checkpoint.config, rope_interleaved=False)


def test_every_tensor_is_the_same_in_bfloat16(checkpoint: Checkpoint, copy: Checkpoint) -> None:
    assert copy.tensors.keys() == checkpoint.tensors.keys()
    for name in set(checkpoint.tensors) - {f"layers.{layer}.{part}" for layer in range(LAYERS) for part in "qk"}:
        np.testing.assert_allclose(copy.tensors[name].dequantize(), checkpoint.tensors[name].dequantize(), rtol=2**-8)


def rotated(rows: NDArray[np.float32], angle: float, *, interleaved: bool) -> NDArray[np.float32]:
    """A head's [dim] values turned by one angle in every pair."""
    half = len(rows) // 2
    first, second = (rows[::2], rows[1::2]) if interleaved else (rows[:half], rows[half:])
    turned = np.stack([first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)])
    return turned.T.reshape(-1).astype(np.float32)


@pytest.mark.parametrize("part", ["q", "k"])
def test_heads_turn_as_they_did(checkpoint: Checkpoint, copy: Checkpoint, part: str) -> None:
    ours, theirs = (of.tensors[f"layers.0.{part}"].dequantize() for of in (checkpoint, copy))
    dim = checkpoint.config.head_dim
    for begin in range(0, len(ours), dim):
        before = rotated(ours[begin : begin + dim, 0], 0.7, interleaved=True)
        after = rotated(theirs[begin : begin + dim, 0], 0.7, interleaved=False)
        np.testing.assert_allclose(after, before, atol=2**-7)


def test_texts_and_markup_have_the_same_tokens(checkpoint: Checkpoint, copy: Checkpoint) -> None:
    ours, theirs = Tokenizer.from_source(checkpoint.tokenizer), Tokenizer.from_source(copy.tokenizer)
    for text in ("the time it took: 12 days", "  spaces\n\nand lines", f"{min(ours.vocabulary.added)}né"):
        assert theirs.encode(text, allow_control=True) == ours.encode(text, allow_control=True)


def test_it_ends_at_a_token_that_no_text_holds(copy: Checkpoint, checkpoint: Checkpoint) -> None:
    ours = Tokenizer.from_source(checkpoint.tokenizer)
    assert all(ours.token_text(end) in ours.vocabulary.added for end in copy.eos_ids)


def test_a_model_that_would_come_out_wrong_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a plain Llama"):
        write_hf_directory(replace(checkpoint, config=replace(checkpoint.config, architecture="qwen2")), tmp_path)
