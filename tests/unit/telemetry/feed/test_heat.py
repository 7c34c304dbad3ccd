"""Hits by level, in cells of five minutes."""

from tailrace.records import RequestRecord
from tailrace.telemetry.feed.heat import CELL_S, HeatCell, HitHeat
from tailrace.types import FinishReason, Level, PrefixReport


def _ended(at_s: float, num_prompt_tokens: int, *found: tuple[Level, int], is_warmup: bool = False) -> RequestRecord:
    prefix = PrefixReport(found, None)
    return RequestRecord("r", 0.0, 0.0, 0.0, at_s, num_prompt_tokens, prefix, 1, 0, FinishReason.STOP, is_warmup)


def test_tokens_are_added_up_in_the_cell_in_which_requests_ended() -> None:
    heat = HitHeat()
    heat.record(_ended(10.0, 100, (Level.ENGINE, 40), (Level.HOST, 16)))
    heat.record(_ended(CELL_S - 0.1, 50, (Level.ENGINE, 16)))
    heat.record(_ended(CELL_S + 0.1, 70))
    assert heat.cells() == [HeatCell(0, 150, {"engine": 56, "host": 16}), HeatCell(1, 70, {})]


def test_what_nobody_asked_for_does_not_count() -> None:
    heat = HitHeat()
    heat.record(_ended(10.0, 100, (Level.ENGINE, 40), is_warmup=True))
    heat.record(RequestRecord("r", 0.0, None, None, 1.0, 9, None, 0, 0, FinishReason.ABORT))
    assert heat.cells() == []


def test_two_hours_are_kept_and_the_next_process_goes_on() -> None:
    heat = HitHeat()
    for number in range(30):
        heat.record(_ended(number * CELL_S, 10))
    assert [cell.number for cell in heat.cells()] == list(range(6, 30))
    later = HitHeat()
    later.go_on_from(heat.cells())
    later.record(_ended(29 * CELL_S + 1.0, 5, (Level.ENGINE, 5)))
    assert later.cells()[-1] == HeatCell(29, 15, {"engine": 5})
