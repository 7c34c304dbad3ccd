"""config.json as a model config: four classes, both generations of rope settings, and what is refused."""

from typing import Any

import pytest

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import Architecture, ModelConfig, RopeScaling
from tailrace.weights.fields import Fields
from tailrace.weights.hf_config import read_config
from tests.unit.weights.model_files import TINY, hugging_face_settings

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def config_of(*, has_head: bool = True, **settings: Any) -> ModelConfig:
    values = hugging_face_settings() | settings
    return read_config(Fields("config.json", values), has_head=has_head)


def rope_of(block: dict[str, Any], **settings: Any) -> RopeScaling | None:
    """The same from both generations."""
    old = config_of(rope_theta=5e5, rope_scaling=block, **settings)
    new = config_of(rope_theta=None, rope_parameters=block | {"rope_theta": 5e5}, **settings)
    assert old == new
    assert old.rope_theta == 5e5
    return old.rope_scaling


def test_llama() -> None:
    assert config_of() == TINY
    assert config_of(architectures=None) == TINY
    assert config_of(architectures="LlamaForCausalLM") == TINY
    assert config_of(torch_dtype="bfloat16", dtype="bfloat16", pretraining_tp=1, rope_scaling=None) == TINY


@pytest.mark.parametrize(
    ("class_name", "architecture", "features"),
    [
        ("LlamaForCausalLM", "llama", (False, False, False)),
        ("MistralForCausalLM", "llama", (False, False, False)),
        ("Qwen2ForCausalLM", "qwen2", (True, False, False)),
        ("Qwen3ForCausalLM", "qwen3", (False, False, True)),
    ],
)
def test_each_class_has_its_biases_and_norms(
    class_name: str, architecture: Architecture, features: tuple[bool, bool, bool]
) -> None:
    config = config_of(architectures=[class_name])
    assert config.architecture == architecture
    assert (config.qkv_bias, config.output_bias, config.qk_norm) == features
    assert not config.rope_interleaved


def test_attention_bias_covers_the_output_but_for_qwen2() -> None:
    llama = config_of(attention_bias=True)
    assert (llama.qkv_bias, llama.output_bias) == (True, True)
    qwen2 = config_of(architectures=["Qwen2ForCausalLM"], attention_bias=True)
    assert (qwen2.qkv_bias, qwen2.output_bias) == (True, False)


def test_what_a_config_leaves_out_follows_from_the_rest() -> None:
    config = config_of(head_dim=None, num_key_value_heads=None, rope_theta=None, rms_norm_eps=None)
    assert (config.head_dim, config.num_kv_heads, config.rope_theta, config.rms_norm_eps) == (16, 4, 10000.0, 1e-6)


def test_the_files_decide_on_a_tied_head_where_the_config_is_silent() -> None:
    assert config_of(tie_word_embeddings=None, has_head=False).tie_word_embeddings
    assert not config_of(tie_word_embeddings=None, has_head=True).tie_word_embeddings
    assert config_of(tie_word_embeddings=True, has_head=True).tie_word_embeddings


def test_plain_rope() -> None:
    assert rope_of({"rope_type": "default"}) is None


@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_linear_rope(key: str) -> None:
    assert rope_of({key: "linear", "factor": 4.0}) == RopeScaling("linear", factor=4.0)


def test_llama3_rope() -> None:
    expected = RopeScaling("llama3", factor=8.0, original_max_tokens=8192)
    assert rope_of({"rope_type": "llama3"} | LLAMA3) == expected


def test_dynamic_rope_serves_the_trained_length() -> None:
    config = config_of(rope_scaling={"type": "dynamic", "factor": 2.0})
    assert config.rope_scaling == RopeScaling("dynamic", factor=2.0, original_max_tokens=128)
    assert config.max_model_tokens == 128


def test_yarn_rope_stretches_the_context() -> None:
    block = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    assert rope_of(block) == RopeScaling("yarn", factor=4.0, original_max_tokens=128)
    assert config_of(rope_scaling=block).max_model_tokens == 512
    assert config_of(rope_scaling=block, max_position_embeddings=4096).max_model_tokens == 4096


def test_yarn_rope_with_everything_given() -> None:
    magnitudes = {"attention_factor": 1.5, "mscale": 0.7, "mscale_all_dim": 0.8}
    bounds = {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}
    assert rope_of({"type": "yarn", "factor": 2.0} | magnitudes | bounds) == RopeScaling(
        "yarn",
        factor=2.0,
        original_max_tokens=128,
        beta_fast=16.0,
        beta_slow=2.0,
        attention_factor=1.5,
        mscale=0.7,
        mscale_all_dim=0.8,
        truncate=False,
    )


def test_yarn_may_take_the_usual_magnitude_back() -> None:
    """As DeepSeek-R1-0528-Qwen3-8B does."""
    scaling = rope_of({"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.8782488562869419})
    assert scaling is not None
    assert scaling.attention_factor == pytest.approx(1.0, rel=1e-12)


def test_yarn_takes_its_factor_from_the_lengths() -> None:
    scaling = rope_of({"type": "yarn", "original_max_position_embeddings": 32})
    assert scaling == RopeScaling("yarn", factor=4.0, original_max_tokens=32)


@pytest.mark.parametrize(("share", "rotary_dim"), [(0.5, 8), (1.0, None)])
def test_a_part_of_the_head_may_turn(share: float, rotary_dim: int | None) -> None:
    assert config_of(partial_rotary_factor=share).rotary_dim == rotary_dim
    assert config_of(rope_parameters={"rope_type": "default", "partial_rotary_factor": share}).rotary_dim == rotary_dim


QWEN: dict[str, Any] = {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 32, "max_window_layers": 1}


@pytest.mark.parametrize(
    ("settings", "window", "num_full"),
    [
        ({"sliding_window": 32}, None, 0),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 32}, 32, 0),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": None}, None, 0),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 128}, None, 0),
        (QWEN, None, 0),
        (QWEN | {"use_sliding_window": False}, None, 0),
        (QWEN | {"use_sliding_window": True}, 32, 1),
        (QWEN | {"use_sliding_window": True, "max_window_layers": None}, 32, 2),
        (QWEN | {"use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"]}, 32, 1),
        (QWEN | {"use_sliding_window": True, "layer_types": ["sliding_attention"] * 2}, 32, 0),
    ],
)
def test_windows_are_used_only_where_the_class_does(
    settings: dict[str, Any], window: int | None, num_full: int
) -> None:
    config = config_of(**settings)
    assert (config.sliding_window, config.num_full_attention_layers) == (window, num_full)
    assert config.full_attention_layers == ()


def test_layers_may_slide_in_any_order() -> None:
    slide, full = "sliding_attention", "full_attention"
    types = [full, slide, full, slide, full]
    listed: dict[str, Any] = {"use_sliding_window": True, "num_hidden_layers": 5, "layer_types": types}
    config = config_of(**(QWEN | listed))
    assert [config.window_of(layer) for layer in range(5)] == [None, 32, None, 32, None]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, "architecture 'GemmaForCausalLM' is not supported; supported: Llama"),
        ({"architectures": None, "model_type": "gpt2"}, "architecture 'gpt2' is not supported"),
        ({"architectures": "GemmaForCausalLM"}, "architecture 'GemmaForCausalLM' is not supported"),
        (
            {"quantization_config": {"quant_method": "hqq"}},
            "quantised by method 'hqq' .*take the model's unquantised files .*--quantize.*, or a GGUF file",
        ),
        ({"quantization_config": {}}, "quantised by a method that quantization_config does not name .* not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"mlp_bias": True}, "mlp_bias is not supported"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope_scaling: rope type 'longrope'"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "differ between layers"),
        (
            QWEN | {"use_sliding_window": True, "layer_types": ["sliding_attention", "chunked_attention"]},
            "layer type 'chunked_attention' is not supported; supported: full_attention, sliding_attention",
        ),
    ],
)
def test_features_that_would_change_the_answer_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=rf"config\.json: .*{reason}"):
        config_of(**settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"architectures": None, "model_type": None}, "architectures is missing; it must be a list of one class"),
        ({"architectures": [5]}, r"architectures is \[5\], it must be a list of one class name"),
        ({"architectures": {"a": 1}}, "architectures is .*, it must be a list of one class name"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size is '64', it must be an integer"),
        ({"hidden_size": True}, "hidden_size is True, it must be an integer"),
        ({"hidden_size": 0}, "hidden_size is 0, it must be between 1 and"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, it must be between 1 and"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, it must be a divisor of the 4 heads"),
        ({"rms_norm_eps": -1.0}, "rms_norm_eps is -1.0, it must be positive"),
        ({"rope_theta": 0}, "rope_theta is 0, it must be positive"),
        ({"max_position_embeddings": None}, "max_position_embeddings is missing"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes', it must be true or false"),
        ({"hidden_act": 3}, "hidden_act is 3, it must be a string"),
        ({"rope_scaling": [1]}, r"rope_scaling is \[1\], it must be a table"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling: factor is missing"),
        (
            {"rope_scaling": {"type": "linear", "factor": "x" * 100}},
            r"factor is 'xxx.*\.\.\., it must be a finite number",
        ),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling: factor is missing"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 1e308}},
            "factor is 1e[+]308, it must be such that the context stays",
        ),
        ({"rope_scaling": {"type": "llama3", "factor": 8.0}}, "original_max_position_embeddings is missing"),
        ({"partial_rotary_factor": 2.0}, "partial_rotary_factor is 2.0, it must be at most 1"),
        (
            {"rope_scaling": {"type": "default", "partial_rotary_factor": 0.1}},
            "must be .*two of the 16 values of a head",
        ),
        (QWEN | {"use_sliding_window": True, "layer_types": 5}, "layer_types is 5, it must be a list of 2"),
        (QWEN | {"use_sliding_window": True, "layer_types": ["full_attention"]}, "layer_types is .* a list of 2"),
    ],
)
def test_values_that_are_no_values_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=rf"config\.json: .*{reason}"):
        config_of(**settings)
