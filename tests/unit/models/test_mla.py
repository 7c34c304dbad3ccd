"""What latent attention records: the published scales and frequencies, which weights, which caches."""

from dataclasses import replace

import pytest

from tailrace.errors import UnsupportedModel
from tailrace.models.config import LatentConfig, ModelConfig, RopeScaling, SparseConfig
from tailrace.models.registry import build_program
from tailrace.ops.program import KvCacheSpec, LatentAttention, Program, RmsNorm, SelectPositions

YARN = RopeScaling("yarn", factor=40.0, original_max_tokens=4096)
LITE = ModelConfig(
    architecture="deepseek_v2",
    vocab_size=100,
    hidden_size=32,
    intermediate_size=48,
    num_layers=1,
    num_heads=2,
    num_kv_heads=2,
    head_dim=192,
    max_model_tokens=163840,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    rope_scaling=replace(YARN, mscale=0.707, mscale_all_dim=0.707),
    rope_interleaved=True,
    latent=LatentConfig(latent_dim=512, plain_dim=128, rope_dim=64, value_dim=128),
)
V3 = replace(
    LITE,
    architecture="deepseek_v3",
    rope_scaling=replace(YARN, mscale=1.0, mscale_all_dim=1.0),
    latent=LatentConfig(latent_dim=512, plain_dim=128, rope_dim=64, value_dim=128, query_latent_dim=48),
)
V32 = replace(V3, architecture="deepseek_v32", sparse=SparseConfig(num_heads=64, head_dim=128, top_k=2048))


def attention(program: Program) -> LatentAttention:
    (op,) = (op for op in program.ops if isinstance(op, LatentAttention))
    return op


def attention_weights(program: Program) -> dict[str, tuple[int, ...]]:
    outside = ("attention_norm", "mlp_norm", "gate", "up", "down")
    weights = {name.removeprefix("layers.0."): weight.shape for name, weight in program.weights.items()}
    return {name: shape for name, shape in weights.items() if name not in ("embed", "norm", "head", *outside)}


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        (LITE, 0.1147213868),
        (V3, 0.1352337789),
        (replace(LITE, rope_scaling=None), 192**-0.5),
        (replace(LITE, rope_scaling=YARN), 192**-0.5),
        (replace(LITE, rope_scaling=replace(YARN, mscale=0.707)), 192**-0.5),
        (replace(LITE, rope_scaling=replace(YARN, factor=0.5, mscale_all_dim=1.0)), 192**-0.5),
    ],
    ids=["V2 and V2-Lite", "V3 and V2.5", "no scaling", "no mscale", "of cos and sin alone", "no stretch"],
)
def test_the_softmax_scale_is_of_the_queries_width_and_the_square_of_a_magnitude(
    config: ModelConfig, scale: float
) -> None:
    assert attention(build_program(config)).scale == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize("config", [LITE, V3], ids=["V2-Lite", "V3"])
def test_the_turned_part_has_the_published_frequencies_and_no_factor(config: ModelConfig) -> None:
    rope = attention(build_program(config)).rope

    golden = {10: 5.623413e-02, 11: 3.900693e-02, 16: 5.5e-03, 22: 1.778279e-04, 23: 3.333804e-05, 31: 3.333804e-06}
    assert len(rope.inv_freq) == 32
    assert {pair: rope.inv_freq[pair] for pair in golden} == pytest.approx(golden, rel=5e-7)
    assert rope.scale == 1.0
    assert rope.interleaved


def test_without_a_query_latent_queries_are_projected_in_one_step() -> None:
    assert attention_weights(build_program(LITE)) == {
        "q": (2 * 192, 32),
        "kv_a": (512 + 64, 32),
        "kv_a_norm": (512,),
        "k_b": (2 * 512, 128),
        "v_b": (2 * 128, 512),
        "o": (32, 2 * 128),
    }


def test_a_query_latent_is_normed_between_two_steps() -> None:
    weights = attention_weights(build_program(V3))

    assert "q" not in weights
    assert [weights[name] for name in ("q_a", "q_a_norm", "q_b")] == [(48, 32), (48,), (2 * 192, 48)]


def test_latents_are_normed_with_an_epsilon_of_their_own() -> None:
    program = build_program(V3)

    epsilons = {op.weight.name: op.eps for op in program.ops if isinstance(op, RmsNorm)}
    assert epsilons["layers.0.q_a_norm"] == attention(program).eps == 1e-6
    assert epsilons["layers.0.attention_norm"] == 1e-5


def test_a_token_keeps_one_latent_for_all_heads() -> None:
    program = build_program(replace(V3, num_layers=3))

    assert program.caches == (KvCacheSpec(1, 576, has_values=False),) * 3
    assert program.kv_values_per_token == 3 * 576


def test_an_index_selects_positions_from_the_query_latent_and_keeps_a_key_of_its_own() -> None:
    program = build_program(V32)
    (select,) = (op for op in program.ops if isinstance(op, SelectPositions))

    added = attention_weights(program).keys() - attention_weights(build_program(V3)).keys()
    assert {name: attention_weights(program)[name] for name in added} == {
        "index.q": (64 * 128, 48),
        "index.k": (128, 32),
        "index.weights": (64, 32),
        "index.k_norm": (128,),
        "index.k_norm.bias": (128,),
    }
    assert attention(program).selection == select.out
    assert (select.num_heads, select.top_k, select.eps) == (64, 2048, 1e-6)
    assert sorted(cache.head_dim for cache in program.caches) == [128, 576]


def test_an_index_turns_halves_where_attention_turns_neighbours() -> None:
    program = build_program(V32)
    (select,) = (op for op in program.ops if isinstance(op, SelectPositions))

    assert select.rope.inv_freq == attention(program).rope.inv_freq
    assert (select.rope.interleaved, attention(program).rope.interleaved) == (False, True)


def test_an_index_with_heads_narrower_than_the_turned_part_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="more rotary dimensions than the key has"):
        build_program(replace(V32, sparse=SparseConfig(num_heads=4, head_dim=32, top_k=8)))
