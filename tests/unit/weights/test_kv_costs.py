"""What `tailrace inspect` says of the KV formats."""

import json
from pathlib import Path
from typing import get_args

import pytest

from tailrace.models.registry import build_program
from tailrace.ops.api import KvFormat
from tailrace.weights.kv_costs import QUALITY_FILE, kv_costs
from tailrace.weights.load import open_checkpoint
from tests.unit.weights.model_files import TINY

PROGRAM = build_program(TINY)


def test_bytes_are_those_of_a_back_end_with_its_scales() -> None:
    costs = {cost.kv_cache_dtype: cost.bytes_per_token for cost in kv_costs(PROGRAM, "a model of nobody's")}

    heads = 2 * TINY.num_layers * TINY.num_kv_heads
    assert costs == {"f32": heads * 64, "bf16": heads * 32, "int8": heads * 20, "fp8_e4m3": heads * 20}


def test_perplexity_is_compared_with_that_of_f32(tmp_path: Path) -> None:
    file = tmp_path / "quality.json"
    lines = [{"kv": "bf16", "perplexity": 20.5}, {"kv": "f32", "perplexity": 20.0}]
    file.write_text(json.dumps({"fingerprint": "measured", "lines": lines}))

    changes = {cost.kv_cache_dtype: cost.perplexity_change for cost in kv_costs(PROGRAM, "measured", file)}
    assert changes == {"f32": 0.0, "bf16": pytest.approx(0.025), "int8": None, "fp8_e4m3": None}
    assert all(cost.perplexity_change is None for cost in kv_costs(PROGRAM, "another", file))


def test_the_default_model_was_measured_in_every_format() -> None:
    checkpoint = open_checkpoint("default")
    changes = {
        cost.kv_cache_dtype: cost.perplexity_change
        for cost in kv_costs(build_program(checkpoint.config), checkpoint.fingerprint)
    }

    assert changes.keys() == set(get_args(KvFormat))
    assert all(change is not None and abs(change) < 0.01 for change in changes.values())
    assert json.loads(QUALITY_FILE.read_text())["command"] == "python -m benchmarks.quality --record"
