"""Settings of a quantised directory, wherever they stand."""

import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.hf_quantization import read_settings


def written(directory: Path, config: dict[str, Any], **files: Any) -> Path:
    for name, content in {"config": config, **files}.items():
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "quantize_config",
            {"bits": 4, "group_size": 128, "desc_act": False, "model_name_or_path": None},
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "model_name_or_path": None},
        ),
        ("quantize_config", {"quant_method": "awq", "bits": 4}, {"quant_method": "awq", "bits": 4}),
        (
            "quant_config",
            {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"},
            {"quant_method": "awq", "zero_point": True, "group_size": 128, "bits": 4, "version": "GEMM"},
        ),
    ],
)
def test_a_file_beside_the_config_says_what_it_does_not(
    tmp_path: Path, name: str, content: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = read_settings(written(tmp_path, {"vocab_size": 8}, **{name: content}))
    assert found.values == {"vocab_size": 8, "quantization_config": expected}
    assert found.source.endswith(f"config.json with {name}.json")


def test_the_config_has_the_last_word(tmp_path: Path) -> None:
    config = {"quantization_config": {"quant_method": "fp8"}}
    assert read_settings(written(tmp_path, config, quantize_config={"bits": 4})).values == config


def test_most_models_are_not_quantised(tmp_path: Path) -> None:
    assert read_settings(written(tmp_path, {"vocab_size": 8})).values == {"vocab_size": 8}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"quantize_config\.json: damaged"):
        read_settings(written(tmp_path, {}, quantize_config=[]))
