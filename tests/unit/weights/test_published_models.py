"""The settings of DeepSeek's published models give models of the published sizes."""

import math
from pathlib import Path

import pytest

from tailrace.models.config import ModelConfig, RopeScaling
from tailrace.models.registry import build_program
from tailrace.models.rope import attention_magnitude
from tailrace.ops.program import LatentAttention, Program, RopeAndStore
from tailrace.weights.fields import Fields
from tailrace.weights.hf_config import read_config
from tailrace.weights.hf_text import read_text
from tests.unit.weights.published_settings import LLAMA_CLASS, OWN_CLASS

SETTINGS = LLAMA_CLASS | OWN_CLASS
LLAMA3 = RopeScaling("llama3", factor=8.0, original_max_tokens=8192)
LINEAR = RopeScaling("linear", factor=4.0)
YARN = RopeScaling(
    "yarn", factor=4.0, original_max_tokens=32768, attention_factor=0.8782488562869419 * (0.1 * math.log(4) + 1)
)


def config_of(name: str) -> ModelConfig:
    return read_config(Fields(name, SETTINGS[name]), has_head=True)


def program_of(name: str) -> Program:
    return build_program(config_of(name))


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("LLM-7B", 6.910),
        ("LLM-67B", 67.42),
        ("Coder-1.3B", 1.346),
        ("Coder-6.7B-instruct", 6.741),
        ("Coder-33B", 33.34),
        ("Distill-Qwen-1.5B", 1.777),
        ("Distill-Qwen-7B", 7.616),
        ("Distill-Qwen-14B", 14.77),
        ("Distill-Qwen-32B", 32.76),
        ("Distill-Llama-8B", 8.030),
        ("Distill-Llama-70B", 70.55),
        ("R1-0528-Qwen3-8B", 8.191),
        ("MoE-16B", 16.38),
        ("V2-Lite", 15.71),
        ("V2", 235.7),
        ("V2.5", 235.7),
        ("V3", 671.03),
        ("V3.2", 671.9),
    ],
)
def test_parameters_add_up_to_the_published_number(name: str, billions: float) -> None:
    parameters = sum(math.prod(weight.shape) for weight in program_of(name).weights.values())
    assert parameters / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("LLM-7B", 245760),
        ("LLM-67B", 194560),
        ("Coder-33B", 126976),
        ("Distill-Qwen-1.5B", 14336),
        ("Distill-Llama-70B", 163840),
        ("R1-0528-Qwen3-8B", 73728),
        ("MoE-16B", 114688),
        ("V2-Lite", 15552),
        ("V2", 34560),
        ("V3", 35136),
        ("V3.2", 35136 + 128 * 61),
    ],
)
def test_a_token_keeps_as_many_values_as_is_known(name: str, values: int) -> None:
    assert program_of(name).kv_values_per_token == values


@pytest.mark.parametrize(
    ("name", "theta", "scaling", "eps", "biases"),
    [
        ("LLM-7B", 1e4, None, 1e-6, False),
        ("LLM-67B", 1e4, None, 1e-6, False),
        ("Coder-1.3B", 1e5, LINEAR, 1e-6, False),
        ("Coder-6.7B-instruct", 1e5, LINEAR, 1e-6, False),
        ("Coder-33B", 1e5, LINEAR, 1e-6, False),
        ("Distill-Qwen-1.5B", 1e4, None, 1e-6, True),
        ("Distill-Qwen-7B", 1e4, None, 1e-6, True),
        ("Distill-Qwen-14B", 1e6, None, 1e-5, True),
        ("Distill-Qwen-32B", 1e6, None, 1e-5, True),
        ("Distill-Llama-8B", 5e5, LLAMA3, 1e-5, False),
        ("Distill-Llama-70B", 5e5, LLAMA3, 1e-5, False),
        ("R1-0528-Qwen3-8B", 1e6, YARN, 1e-6, False),
    ],
)
def test_llama_class_models_turn_and_norm_as_they_were_trained(
    name: str, theta: float, scaling: RopeScaling | None, eps: float, biases: bool
) -> None:
    config = config_of(name)
    assert (config.rope_theta, config.rope_scaling, config.rms_norm_eps, config.qkv_bias) == (
        theta,
        scaling,
        eps,
        biases,
    )
    assert config.head_dim == 128
    assert config.sliding_window is None, "named in the file, and not used"
    assert not config.tie_word_embeddings
    assert config.max_model_tokens == SETTINGS[name]["max_position_embeddings"]
    assert config.qk_norm is (config.architecture == "qwen3")


@pytest.mark.parametrize("name", SETTINGS)
def test_answers_begin_and_end_with_the_ids_of_the_config(tmp_path: Path, name: str) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    settings = SETTINGS[name]
    text = read_text(tmp_path, Fields(name, settings), settings["vocab_size"])
    assert (text.bos_id, text.eos_ids) == (settings["bos_token_id"], (settings["eos_token_id"],))


@pytest.mark.parametrize(
    ("name", "magnitude", "scale"),
    [
        ("V2-Lite", 1.2608037774, 0.1147213868),
        ("V2", 1.2608037774, 0.1147213868),
        ("V2.5", 1.3688879454, 0.1352337789),
        ("V3", 1.3688879454, 0.1352337789),
        ("V3.2", 1.3688879454, 0.1352337789),
    ],
)
def test_yarn_scales_the_softmax_and_leaves_cos_and_sin(name: str, magnitude: float, scale: float) -> None:
    assert attention_magnitude(config_of(name)) == pytest.approx(magnitude, rel=1e-9)
    attention = next(op for op in program_of(name).ops if isinstance(op, LatentAttention))
    assert attention.scale == pytest.approx(scale, rel=1e-9)
    assert attention.rope.scale == 1
    assert attention.rope.interleaved
    frequencies = {10: 5.623413e-02, 11: 3.900693e-02, 16: 5.5e-03, 22: 1.778279e-04, 31: 3.333804e-06}
    for pair, frequency in frequencies.items():
        assert attention.rope.inv_freq[pair] == pytest.approx(frequency, rel=1e-6)


def test_qwen3_takes_the_usual_magnitude_back() -> None:
    rope = next(op.rope for op in program_of("R1-0528-Qwen3-8B").ops if isinstance(op, RopeAndStore))
    assert rope.scale == pytest.approx(1)


def test_a_context_is_as_long_as_yarn_stretches_it() -> None:
    assert config_of("V3").max_model_tokens == 163840
    assert config_of("R1-0528-Qwen3-8B").max_model_tokens == 131072
