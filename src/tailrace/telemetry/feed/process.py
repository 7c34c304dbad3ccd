"""What one process has to show besides what it counts: the latest steps and requests, and hits over time."""

import msgspec

from tailrace.records import Record, RequestRecord, StepRecord
from tailrace.telemetry.feed.heat import HeatCell, HitHeat
from tailrace.telemetry.feed.steps import StepLine, StepLog
from tailrace.telemetry.lives import LifeLog, RequestLife

__all__ = ["ProcessFeed", "ProcessView", "decode_view"]

_MAX_LIVES = 60


class ProcessView(msgspec.Struct, array_like=True):
    """All of it at one moment. The engine has steps and cells, API processes have lives."""

    steps: list[StepLine]
    cells: list[HeatCell]
    lives: list[RequestLife]


_encode = msgspec.msgpack.Encoder().encode
decode_view = msgspec.msgpack.Decoder(ProcessView).decode


class ProcessFeed:
    """`record` takes what the engine emits, in its thread. Costs an append a step until somebody looks."""

    def __init__(self, lives: LifeLog) -> None:
        self._lives = lives
        self._steps = StepLog()
        self._heat = HitHeat()

    def record(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self._steps.record(record)
        elif isinstance(record, RequestRecord):
            self._heat.record(record)

    def view(self) -> ProcessView:
        """From any thread, if lives begin and end in it or in none."""
        return ProcessView(self._steps.lines(), self._heat.cells(), self._lives.lives()[:_MAX_LIVES])

    def snapshot(self) -> bytes:
        """A view for other processes."""
        return _encode(self.view())

    def go_on_from(self, view: ProcessView) -> None:
        """Count hits on from what a process before this one had."""
        self._heat.go_on_from(view.cells)
