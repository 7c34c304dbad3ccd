"""What `build_program` records: which weights, which shapes, which layers see how far."""

from dataclasses import replace
from typing import cast

import pytest

from tailrace.errors import UnsupportedModel
from tailrace.models.config import Architecture, ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.program import Linear, PagedAttention, Program, RopeAndStore

LLAMA = ModelConfig(
    architecture="llama",
    vocab_size=100,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    max_model_tokens=64,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
)


def shapes(program: Program) -> dict[str, tuple[int, ...]]:
    return {name: weight.shape for name, weight in program.weights.items()}


def windows(program: Program) -> list[int | None]:
    return [op.window for op in program.ops if isinstance(op, PagedAttention)]


def test_llama_reads_exactly_these_weights() -> None:
    program = build_program(replace(LLAMA, num_layers=1))

    assert shapes(program) == {
        "embed": (100, 32),
        "layers.0.attention_norm": (32,),
        "layers.0.q": (32, 32),
        "layers.0.k": (16, 32),
        "layers.0.v": (16, 32),
        "layers.0.o": (32, 32),
        "layers.0.mlp_norm": (32,),
        "layers.0.gate": (48, 32),
        "layers.0.up": (48, 32),
        "layers.0.down": (32, 48),
        "norm": (32,),
        "head": (100, 32),
    }


def test_a_tied_head_is_the_embedding() -> None:
    program = build_program(replace(LLAMA, tie_word_embeddings=True))

    assert "head" not in program.weights
    last = program.ops[-1]
    assert isinstance(last, Linear)
    assert last.weights[0].name == "embed"


def test_qwen2_adds_biases_to_q_k_v_alone() -> None:
    plain, biased = build_program(LLAMA), build_program(replace(LLAMA, architecture="qwen2", qkv_bias=True))

    added = {name: shape for name, shape in shapes(biased).items() if name not in plain.weights}
    assert added == {
        f"layers.{layer}.{part}.bias": (size,) for layer in range(2) for part, size in (("q", 32), ("k", 16), ("v", 16))
    }


def test_llama_with_attention_bias_has_one_on_the_output_too() -> None:
    program = build_program(replace(LLAMA, qkv_bias=True, output_bias=True))

    assert shapes(program)["layers.1.o.bias"] == (32,)


def test_qwen3_norms_each_head_of_q_and_k_before_turning() -> None:
    program = build_program(replace(LLAMA, architecture="qwen3", qk_norm=True))

    turns = [op for op in program.ops if isinstance(op, RopeAndStore)]
    assert [(op.q_norm and op.q_norm.name, op.k_norm and op.k_norm.name) for op in turns] == [
        ("layers.0.q_norm", "layers.0.k_norm"),
        ("layers.1.q_norm", "layers.1.k_norm"),
    ]
    assert shapes(program)["layers.0.q_norm"] == (8,)
    assert turns[0].eps == LLAMA.rms_norm_eps


def test_head_dim_need_not_be_hidden_size_over_heads() -> None:
    program = build_program(replace(LLAMA, head_dim=16))

    assert shapes(program)["layers.0.q"] == (64, 32)
    assert shapes(program)["layers.0.o"] == (32, 64)
    attention = next(op for op in program.ops if isinstance(op, PagedAttention))
    assert attention.scale == pytest.approx(0.25)


def test_every_layer_has_its_own_cache() -> None:
    program = build_program(LLAMA)

    assert [op.cache for op in program.ops if isinstance(op, PagedAttention)] == [0, 1]
    assert program.kv_values_per_token == 2 * 2 * 2 * 8


def test_without_a_sliding_window_every_layer_sees_everything() -> None:
    assert windows(build_program(LLAMA)) == [None, None]


def test_layers_below_the_bound_see_everything_and_the_others_slide() -> None:
    sliding = replace(LLAMA, num_layers=3, sliding_window=5, num_full_attention_layers=2)

    assert windows(build_program(sliding)) == [None, None, 5]


def test_layers_that_see_everything_may_lie_among_others() -> None:
    sliding = replace(LLAMA, num_layers=4, sliding_window=5, full_attention_layers=(0, 2))

    assert windows(build_program(sliding)) == [None, 5, None, 5]


def test_a_name_that_is_not_registered_is_refused_with_the_known_ones() -> None:
    unknown = replace(LLAMA, architecture=cast("Architecture", "gpt2"))

    with pytest.raises(UnsupportedModel, match="'gpt2' is not known; known: llama, qwen2, qwen3"):
        build_program(unknown)


@pytest.mark.parametrize(
    "broken",
    [
        replace(LLAMA, num_kv_heads=3),
        replace(LLAMA, num_kv_heads=0),
        replace(LLAMA, rotary_dim=16),
        replace(LLAMA, rope_theta=0.0),
    ],
    ids=["heads do not divide", "no KV heads", "more rotary dimensions than the head", "theta is zero"],
)
def test_sizes_that_contradict_each_other_are_refused(broken: ModelConfig) -> None:
    with pytest.raises(UnsupportedModel, match="contradicts itself"):
        build_program(broken)


def test_behind_the_last_keys_and_values_only_sampled_rows_are_computed() -> None:
    linears = [op for op in build_program(LLAMA).ops if isinstance(op, Linear)]

    assert {op.out.rows for op in linears if op.weights[0].name.startswith("layers.0.")} == {"tokens"}
    sampled = [op.weights[-1].name for op in linears if op.out.rows == "samples"]
    assert sampled == ["layers.1.up", "layers.1.down", "head"]
