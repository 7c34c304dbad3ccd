"""The benchmark of what Python costs in a step runs, on a model that takes no time."""

import json
from pathlib import Path

import pytest

from benchmarks.scheduling import hot_path as benchmark
from benchmarks.scheduling.hot_path import Figures, Parts, measure
from tailrace.config import EngineConfig
from tailrace.levels.config import LevelsConfig
from tailrace.loading import LoadedModel, load_model
from tailrace.weights.load import open_checkpoint

CONFIG = EngineConfig(backend="cpu", num_threads=1, kv_memory_bytes=16 << 20, max_model_tokens=1024)


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(open_checkpoint("tiny-deepseek"), CONFIG)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who looks at no figure: neither steady windows, nor what a large model does to the processor's caches."""
    monkeypatch.setattr(benchmark, "WARM_STEPS", 30)
    monkeypatch.setattr(benchmark, "WEIGHT_BYTES", 1 << 20)


def measured(model: LoadedModel, levels: LevelsConfig | None = None) -> Figures:
    return measure(model, CONFIG, num_streams=2, num_steps=20, read_bytes=0, levels=levels)


@pytest.mark.usefixtures("hurried")
def test_all_of_a_step_is_in_one_of_its_parts(model: LoadedModel) -> None:
    figures = measured(model)
    assert set(figures.parts_us) == set(Parts._fields)
    assert all(time_us > 0 for time_us in figures.parts_us.values())
    assert 0 < figures.python_us < figures.step_us
    assert figures.python_us <= figures.python_p99_us


def test_what_steps_leave_behind_is_counted_by_token(model: LoadedModel) -> None:
    left = measured(model).left
    assert left.num_steps == 20
    assert 0 < left.beside_cache_bytes < left.left_bytes
    assert len(left.num_collections) == 3


@pytest.mark.usefixtures("hurried")
def test_blocks_may_be_saved_meanwhile(model: LoadedModel, tmp_path: Path) -> None:
    assert measured(model, LevelsConfig(1 << 20, host_directory=tmp_path)).python_us > 0


@pytest.mark.usefixtures("hurried")
def test_the_command_prints_figures_to_read_or_to_keep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["hot_path", "--model", "tiny-deepseek", "--streams", "1", "--steps", "5", "--no-device"]
    monkeypatch.setattr("sys.argv", words)
    benchmark.main()
    assert "1 streams:" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*words, "--json"])
    benchmark.main()
    kept = json.loads(capsys.readouterr().out)
    assert kept["rows"][0]["num_streams"] == 1
