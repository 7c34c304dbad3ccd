import json
import subprocess
import sys

import pytest

from benchmarks.ring import __main__ as benchmark
from benchmarks.ring.measure import Load, Run, figures_of
from benchmarks.ring.transport import Mode, decode, encode, step_of

HERE = ["ring", "ring-futex", "ring-event-loop", "unix-socket", "zeromq"]


def test_it_runs_and_says_what_it_found() -> None:
    words = ["--transports", *HERE, "--steps", "20", "--tokens", "3", "--period-ms", "0.1", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ring", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["figures"]
    assert {(each["transport"], each["reader"]) for each in found} == {
        (name, mode) for name in HERE for mode in benchmark.CONTESTANTS[name].transport.modes
    }
    assert all(0 < each["p50_us"] <= each["p99_us"] and each["send_us"] > 0 for each in found)


def test_who_is_not_installed_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    assert list(benchmark.those_here(["ring", "iceoryx2"])) == ["ring"]
    assert "iceoryx2 is not measured: pip install iceoryx2" in capsys.readouterr().err


def test_peers_carry_what_a_slot_holds() -> None:
    step = step_of(5)
    assert [event.token_id for event in step.events] == [token.token_id for token in step.tokens]
    assert decode(encode(step.tokens)) == 5


def test_figures_are_of_all_rounds() -> None:
    load = Load(num_steps=100, num_tokens=10, period_s=0.001)
    runs = [Run([1e-6] * 90, [2e-6] * 90, 1e-3), Run([3e-6] * 91, [2e-6] * 90, 3e-3)]
    figures = figures_of(runs, load)
    assert (figures.p50_us, figures.p99_us) == pytest.approx((3.0, 3.0))
    assert (figures.send_us, figures.cpu_us) == pytest.approx((2.0, 2000.0))


def test_a_load_that_says_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        benchmark.parse_arguments(["--steps", "1"])
    assert "at least 10 steps" in capsys.readouterr().err


def test_a_reader_in_an_event_loop_sleeps() -> None:
    assert benchmark.CONTESTANTS["ring-event-loop"].transport.modes == (Mode.SLEEP,)
