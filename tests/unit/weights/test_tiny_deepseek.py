"""The model that comes with the package: what its file holds."""

import pytest

from tailrace.models.config import LatentConfig
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import Checkpoint, GgufVocabulary
from tailrace.weights.load import open_checkpoint
from tailrace.weights.tiny_deepseek import tiny_deepseek_path


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint("tiny-deepseek")


def test_it_is_small_enough_for_a_repository() -> None:
    assert tiny_deepseek_path().stat().st_size < 6_000_000


def test_it_has_every_part_of_deepseek_v3(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (checkpoint.name, config.architecture) == ("tiny-deepseek", "deepseek_v3")
    assert config.latent == LatentConfig(latent_dim=96, plain_dim=64, rope_dim=32, value_dim=32, query_latent_dim=128)
    assert config.rope_scaling is not None
    assert (config.rope_scaling.kind, config.rope_scaling.mscale_all_dim) == ("yarn", 1.0)
    assert config.mixture is not None
    assert [config.mixture.is_mixture(layer) for layer in range(config.num_layers)] == [False, True, True]
    routing = config.mixture.routing
    assert (routing.scoring, routing.num_experts, routing.top_k, routing.num_groups) == ("sigmoid", 16, 4, 4)
    assert config.mixture.num_shared == 1


def test_training_moved_the_bias_of_every_expert(checkpoint: Checkpoint) -> None:
    for layer in (1, 2):
        bias = checkpoint.tensors[f"layers.{layer}.router.bias"].dequantize()
        assert bias.std() > 0.01
        assert (bias != 0).all()


def test_what_predicts_further_tokens_is_loaded_when_asked_for(checkpoint: Checkpoint) -> None:
    whole = open_checkpoint("tiny-deepseek", mtp=True)
    further = whole.tensors.keys() - checkpoint.tensors.keys()

    assert not any(name.startswith("mtp.") for name in checkpoint.tensors)
    assert all(name.startswith("mtp.0.") for name in further)
    block = {name.removeprefix("mtp.0.") for name in further}
    assert block == {
        *(name.removeprefix("layers.2.") for name in checkpoint.tensors if name.startswith("layers.2.")),
        *("enorm", "hnorm", "eh_proj", "shared_head_norm"),
    }
    assert whole.tensors["mtp.0.eh_proj"].shape == (256, 512)
    assert whole.tensors["mtp.0.experts.down"].dequantize().std() > 0.01


def test_its_vocabulary_has_the_tokens_of_deepseek(checkpoint: Checkpoint) -> None:
    tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
    text = "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜><｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>"
    ids = tokenizer.encode(text, allow_control=True)

    assert isinstance(checkpoint.tokenizer, GgufVocabulary)
    pieces = [checkpoint.tokenizer.tokens[token] for token in ids]
    assert pieces[:2] == ["<｜begin▁of▁sentence｜>", "<｜User｜>"]
    assert pieces[-5::2] == ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"]
    assert (checkpoint.bos_id, checkpoint.eos_ids[0], checkpoint.add_bos) == (0, 1, True)
