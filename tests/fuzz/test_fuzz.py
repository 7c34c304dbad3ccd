"""Fuzzing runs, and would see what it looks for."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz.mutate import MAX_BYTES, mutated
from tests.fuzz.targets import TARGETS, Target

ROOT = Path(__file__).parents[2]
NUM_INPUTS = 6_000


def test_damaged_inputs_end_in_an_answer_or_in_an_error_of_ours() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--inputs", str(NUM_INPUTS), "--seed", "11"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"0 of {len(TARGETS)} targets failed" in ended.stdout


def test_the_same_seed_damages_alike_and_within_bounds() -> None:
    inputs = [b"x" * 100, b"{}", b""]
    first, second = ([mutated(chance, inputs) for _ in range(500)] for chance in (random.Random(1), random.Random(1)))
    assert first == second
    assert len(set(first)) > 400
    assert max(map(len, first)) <= MAX_BYTES


def fill_memory() -> None:
    held = [bytes(1 << 26) for _ in range(64)]
    raise AssertionError(f"{len(held)} pieces fit")


def wait() -> None:
    time.sleep(30)


def fault() -> None:
    raise ZeroDivisionError


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("harm", [fill_memory, wait, fault, crash])
def test_what_harms_is_found_and_kept_to_begin_with(
    harm: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path)
    monkeypatch.setattr(fuzz, "MAX_INPUT_S", 0.1)

    def take(data: bytes) -> None:
        if data != b"harmless":
            harm()

    target = Target("a target", lambda folder: ([b"harmless"], take))
    assert fuzz.runs_well(target, 1, seed=0)
    assert not fuzz.runs_well(target, 50, seed=0)
    (kept,) = fuzz.known(target)
    assert kept != b"harmless"
    assert "a target: status " in capfd.readouterr().out


def test_every_input_that_once_did_harm_is_small() -> None:
    kept = [path for path in fuzz.CORPUS.glob("*/*") if path.is_file()]
    assert all(path.stat().st_size <= MAX_BYTES for path in kept)
