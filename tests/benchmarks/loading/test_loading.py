import subprocess
import sys

import numpy as np
import pytest

from benchmarks.loading.__main__ import MODES
from benchmarks.loading.contestants import contestants
from benchmarks.loading.matrices import FORMS, draw
from tailrace.ops.narrow import narrow
from tailrace.ops.packed import PackedTensor
from tailrace.weights.quantize import Mode


def test_it_runs_and_says_what_it_found() -> None:
    words = ["--forms", "bf16", "Q2_K", "--millions", "1", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.loading", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(f"│ {form} │ {mode} │" in done.stdout for form in ("bf16", "Q2_K") for mode in MODES)
    assert "Memory is read at" in done.stdout


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_drawn_can_be_narrowed_in_every_way(form: str, mode: Mode) -> None:
    matrix = draw(form, 40_000)
    assert matrix.num_values == 9 * 4096
    for way in contestants():
        way.convert(matrix.rows(way.share), mode)
    groups = (9, 128)
    scales = np.empty(groups, np.float16)
    room = PackedTensor((9, 4096), "q4", np.empty((*groups, 16), np.uint8), scales, scales.copy())
    assert narrow(matrix.raw, room) is not None, "native code must not leave to numpy what is measured"
