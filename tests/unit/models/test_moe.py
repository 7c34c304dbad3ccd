"""What mixtures of experts record: which layers are some, which weights they read."""

from dataclasses import replace

import pytest

from tailrace.errors import UnsupportedModel
from tailrace.models.config import MixtureConfig, ModelConfig
from tailrace.models.registry import build_program
from tailrace.ops.program import Experts, GatherRows, Program, Routing

ROUTING = Routing(6, 2, "softmax")
CONFIG = ModelConfig(
    architecture="deepseek",
    vocab_size=100,
    hidden_size=32,
    intermediate_size=48,
    num_layers=4,
    num_heads=4,
    num_kv_heads=4,
    head_dim=8,
    max_model_tokens=64,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    mixture=MixtureConfig(ROUTING, expert_size=10, first_layer=1),
)


def with_mixture(mixture: MixtureConfig) -> Program:
    return build_program(replace(CONFIG, mixture=mixture))


def mlp_weights(program: Program, layer: int) -> dict[str, tuple[int, ...]]:
    attention = ("attention_norm", "q", "k", "v", "o", "mlp_norm")
    prefix = f"layers.{layer}."
    weights = {name.removeprefix(prefix): w.shape for name, w in program.weights.items() if name.startswith(prefix)}
    return {name: shape for name, shape in weights.items() if name not in attention}


def test_layers_before_the_first_mixture_have_one_mlp() -> None:
    program = build_program(CONFIG)

    assert mlp_weights(program, 0) == {"gate": (48, 32), "up": (48, 32), "down": (32, 48)}
    assert len([op for op in program.ops if isinstance(op, Experts)]) == 3


def test_a_mixture_reads_the_matrices_of_its_experts_one_below_the_other() -> None:
    assert mlp_weights(build_program(CONFIG), 1) == {
        "router": (6, 32),
        "experts.gate": (6 * 10, 32),
        "experts.up": (6 * 10, 32),
        "experts.down": (6 * 32, 10),
    }


def test_shared_experts_are_one_mlp_that_joins_the_stream_unscaled() -> None:
    program = with_mixture(MixtureConfig(replace(ROUTING, scale=16.0), expert_size=10, num_shared=2))

    assert {name: shape for name, shape in mlp_weights(program, 1).items() if name.startswith("shared")} == {
        "shared.gate": (20, 32),
        "shared.up": (20, 32),
        "shared.down": (32, 20),
    }
    shared = {op.out for op in program.ops if any(w.name.endswith("shared.down") for w in getattr(op, "weights", ()))}
    assert {op.residual for op in program.ops if isinstance(op, Experts)} == shared


def test_a_bias_is_read_if_the_config_has_one() -> None:
    program = with_mixture(MixtureConfig(ROUTING, expert_size=10, has_bias=True))

    assert mlp_weights(program, 0)["router.bias"] == (6,)
    assert [op.bias is None for op in program.ops if isinstance(op, Experts)] == [False] * 4


def test_every_other_layer_may_be_a_mixture() -> None:
    program = with_mixture(MixtureConfig(ROUTING, expert_size=10, first_layer=1, every=2))

    assert ["router" in mlp_weights(program, layer) for layer in range(4)] == [False, False, True, False]


def test_experts_of_the_last_layer_see_sampled_rows_alone() -> None:
    program = build_program(CONFIG)

    assert [op.out.rows for op in program.ops if isinstance(op, Experts)] == ["tokens", "tokens", "samples"]
    assert len([op for op in program.ops if isinstance(op, GatherRows)]) == 1


@pytest.mark.parametrize(
    ("routing", "complaint"),
    [
        (replace(ROUTING, num_groups=4), "4 groups of 6"),
        (replace(ROUTING, num_groups=3, top_groups=4), "4 of 3 groups"),
        (replace(ROUTING, num_groups=3, top_k=3), "3 of 2 in the chosen groups"),
        (replace(ROUTING, num_groups=6, top_groups=2, group_rank="top two"), "no two best"),
    ],
)
def test_a_routing_that_cannot_choose_is_refused(routing: Routing, complaint: str) -> None:
    with pytest.raises(UnsupportedModel, match=complaint):
        with_mixture(MixtureConfig(routing, expert_size=10))
