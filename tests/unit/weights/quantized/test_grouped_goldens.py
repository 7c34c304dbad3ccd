"""What AutoGPTQ and AutoAWQ have packed, and read themselves: scripts/oracle/grouped_layouts.py wrote it down."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.weights.fields import Fields
from tailrace.weights.safetensors import read_safetensors
from tailrace.weights.scheme import SETTINGS, read_scheme
from tests.unit.weights.test_composed import assert_reads_alike

DATA = Path(__file__).parent / "data"
CASES: dict[str, Any] = json.loads((DATA / "grouped.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_that_the_package_reads(case: str) -> None:
    own = {
        name.removeprefix(f"{case}/"): tensor
        for name, tensor in read_safetensors(DATA / "grouped.safetensors").items()
        if name.startswith(f"{case}/")
    }
    expected = own.pop("expected").bits()
    scheme = read_scheme(Fields("config.json", {SETTINGS: CASES[case]}))
    (matrix,) = scheme.compose(own).values()
    np.testing.assert_array_equal(assert_reads_alike(matrix), expected)
    assert (matrix.format is None) == ("shuffled" in case or "8bit-g-1-asym" in case)
