from pathlib import Path

import pytest

from benchmarks.quality.__main__ import KV_FORMATS, Quality, parse_arguments, record
from tailrace.models.registry import build_program
from tailrace.weights.kv_costs import kv_costs
from tailrace.weights.load import open_checkpoint
from tests.support.oracle import Prose


def test_what_is_recorded_is_what_inspect_shows(tmp_path: Path) -> None:
    perplexities = dict(zip(KV_FORMATS, (20.1, 20.2, 20.4, 20.0), strict=True))
    lines = [Quality("as shipped", kv, 1, value, 0.0, 1.0) for kv, value in perplexities.items()]
    record(lines, Prose.read(), "portable", tmp_path / "quality.json")

    checkpoint = open_checkpoint("default")
    costs = kv_costs(build_program(checkpoint.config), checkpoint.fingerprint, tmp_path / "quality.json")
    changes = {cost.kv_cache_dtype: cost.perplexity_change for cost in costs}
    assert changes == {kv: pytest.approx(value / perplexities["f32"] - 1) for kv, value in perplexities.items()}


def test_all_kv_formats_are_recorded_and_the_weights_as_shipped_alone() -> None:
    arguments = parse_arguments(["--record", "--kv", "bf16"])

    assert arguments.weights == ["as shipped"]
    assert tuple(arguments.kv) == KV_FORMATS
