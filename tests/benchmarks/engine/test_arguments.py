import pytest

from benchmarks.engine.__main__ import OUTSIDE_AIMS, is_met, parse_arguments
from benchmarks.engine.idle import Idle
from benchmarks.engine.steps import Attribution


def attribution(num_streams: int, outside_share: float) -> Attribution:
    return Attribution(num_streams, 10, period_s=1.0, outside_s=outside_share, parts_s={})


@pytest.mark.parametrize(
    ("words", "message"),
    [(["stps"], "no view stps: choose of steps, idle, timed, server"), (["--streams", "0"], "1 to 64 streams")],
)
def test_what_cannot_be_measured_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(words)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("num_streams", OUTSIDE_AIMS)
def test_an_aim_is_missed_when_too_much_time_goes_outside_of_native_code(num_streams: int) -> None:
    aim = OUTSIDE_AIMS[num_streams]
    assert is_met([attribution(num_streams, aim)], None, [])
    assert not is_met([attribution(num_streams, aim + 0.001)], None, [])


def test_an_idle_server_has_aims_too() -> None:
    assert is_met([], Idle(rss_bytes=240_000_000, weight_bytes=100_000_000, cpu_share=0.001), [])
    assert not is_met([], Idle(rss_bytes=260_000_000, weight_bytes=100_000_000, cpu_share=0.001), [])
    assert not is_met([], Idle(rss_bytes=240_000_000, weight_bytes=100_000_000, cpu_share=0.02), [])
