"""Makes frames of what the processes of a server say: one builder for all who look, now and later."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.records import EnginePart, EventRecord
from tailrace.telemetry.catalogs import answers as answer_catalog
from tailrace.telemetry.catalogs import classes as class_catalog
from tailrace.telemetry.catalogs import kv as kv_catalog
from tailrace.telemetry.catalogs import levels as level_catalog
from tailrace.telemetry.catalogs import process as process_catalog
from tailrace.telemetry.catalogs import requests as request_catalog
from tailrace.telemetry.catalogs import rules as rule_catalog
from tailrace.telemetry.catalogs import steps as step_catalog
from tailrace.telemetry.catalogs.engine_time import ENGINE_SECONDS
from tailrace.telemetry.feed.frame import (
    BlocksLine,
    ClassLine,
    ControlLine,
    EventLine,
    Frame,
    Heat,
    HeatRow,
    LevelLine,
    ProcessLine,
    RatesLine,
    RooflineLine,
    ShownStep,
)
from tailrace.telemetry.feed.heat import CELL_S, MAX_CELLS, HeatCell
from tailrace.telemetry.feed.process import ProcessView
from tailrace.telemetry.feed.requests import request_lines
from tailrace.telemetry.feed.steps import StepLine
from tailrace.telemetry.metric import Metric
from tailrace.telemetry.readings import Reading, Readings, Window
from tailrace.types import Level, LevelMode

__all__ = ["FrameBuilder", "ServerFacts"]

_SHORT_S = 5.0
_LONG_S = 60.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What does not change while the server runs."""

    model: str
    version: str
    budget_tokens: int
    num_api_processes: int
    started_s: float  # monotonic


class FrameBuilder:
    """`classes` gives the service classes with the targets that they have now."""

    def __init__(self, facts: ServerFacts, classes: Callable[[], ServiceClasses]) -> None:
        self._facts = facts
        self._classes = classes
        self._readings = Readings(_LONG_S)
        self._last_step_id = -1

    def build(
        self,
        reading: Reading,
        events: Sequence[EventRecord],
        views: Sequence[ProcessView],
        *,
        is_ready: bool,
        roofline: RooflineLine | None = None,
    ) -> Frame:
        """The next frame, from what all processes count together and what each of them has to show."""
        now_s = reading.at_s
        self._readings.add(reading)
        short, long = self._readings.over(_SHORT_S), self._readings.over(_LONG_S)
        steps = [step for view in views for step in view.steps]
        return Frame(
            model=self._facts.model,
            version=self._facts.version,
            uptime_s=now_s - self._facts.started_s,
            is_ready=is_ready,
            num_api_processes=self._facts.num_api_processes,
            rates=_rates(short),
            classes=[_class_line(each, long) for each in self._classes()],
            levels=_levels(long),
            blocks=_blocks(reading),
            heat=_heat([cell for view in views for cell in view.cells], _levels_of(reading), now_s),
            control=self._control(long),
            steps=[_shown(step, now_s) for step in self._news(steps)],
            time=_time(short),
            roofline=roofline,
            processes=_processes(short),
            requests=request_lines([life for view in views for life in view.lives], steps, now_s),
            events=[EventLine(each.at_s, each.kind.value, each.message) for each in events],
        )

    def _news(self, steps: Sequence[StepLine]) -> Sequence[StepLine]:
        """Those since the frame before. An engine that was started again counts from the beginning."""
        last = steps[-1].step_id if steps else self._last_step_id
        seen, self._last_step_id = self._last_step_id, last
        return [step for step in steps if step.step_id > seen] if last >= seen else steps

    def _control(self, window: Window) -> ControlLine:
        reading = window.last
        return ControlLine(
            budget_tokens=self._facts.budget_tokens,
            max_running=int(reading.value(class_catalog.RUNNING_LIMIT) or 0),
            pace=reading.value(class_catalog.PACE) or 0.0,
            target_scale=reading.value(class_catalog.TARGET_SCALE) or 0.0,
            prediction_error_p50=window.quantile(class_catalog.STEP_PREDICTION_ERROR, 0.5),
        )


def _rates(window: Window) -> RatesLine:
    return RatesLine(
        output_tokens_per_s=window.rate(step_catalog.GENERATION_TOKENS),
        prompt_tokens_per_s=window.rate(step_catalog.COMPUTED_TOKENS, part="prompt"),
        requests_per_s=window.rate(request_catalog.REQUESTS_FINISHED),
        refused_per_s=window.rate(class_catalog.REFUSED),
        steps_per_s=window.observed_rate(step_catalog.STEP_SECONDS),
    )


def _class_line(each: ServiceClass, window: Window) -> ClassLine:
    name = {"class": each.name}
    on, off = (window.gained(metric, **name) for metric in (class_catalog.ON_TARGET, class_catalog.OFF_TARGET))
    return ClassLine(
        name=each.name,
        running=int(window.last.value(class_catalog.CLASS_RUNNING, **name) or 0),
        waiting=int(window.last.value(class_catalog.CLASS_WAITING, **name) or 0),
        ttft_target_s=each.ttft_s,
        itl_target_s=each.itl_s,
        ttft_p50_s=window.quantile(request_catalog.FIRST_TOKEN_SECONDS, 0.5, **name),
        ttft_p99_s=window.quantile(request_catalog.FIRST_TOKEN_SECONDS, 0.99, **name),
        itl_p50_s=window.quantile(answer_catalog.TOKEN_GAP_SECONDS, 0.5, **name),
        itl_p99_s=window.quantile(answer_catalog.TOKEN_GAP_SECONDS, 0.99, **name),
        on_target=on / (on + off) if on + off > 0.0 else None,
        num_refused=int(window.gained(class_catalog.REFUSED, **name)),
    )


def _levels_of(reading: Reading) -> list[Level]:
    """The engine, and the levels below it that there are."""
    below = {labels[0] for labels in reading.values(level_catalog.LEVEL_UP)}
    return [level for level in Level if level is Level.ENGINE or level.value in below]


def _levels(window: Window) -> list[LevelLine]:
    return [
        _engine_line(window) if level is Level.ENGINE else _level_line(level, window)
        for level in _levels_of(window.last)
    ]


def _engine_line(window: Window) -> LevelLine:
    reading = window.last
    num_blocks = sum(reading.value(each) or 0.0 for each in (kv_catalog.KV_BLOCKS_USED, kv_catalog.KV_BLOCKS_CACHED))
    total = reading.value(kv_catalog.KV_BLOCKS) or 0.0
    return LevelLine(
        name=Level.ENGINE.value,
        used=num_blocks / total if total else None,
        num_blocks=int(num_blocks),
        num_bytes=int(reading.value(kv_catalog.KV_RESIDENT_BYTES) or 0),
        max_bytes=None,
        hit_rate=_hit_rate(Level.ENGINE, window),
        is_up=True,
        mode=LevelMode.NORMAL,
    )


def _level_line(level: Level, window: Window) -> LevelLine:
    def value(metric: Metric) -> float:
        return window.last.value(metric, level=level.value) or 0.0

    num_bytes, max_bytes = value(level_catalog.LEVEL_BYTES), value(level_catalog.LEVEL_MAX_BYTES)
    return LevelLine(
        name=level.value,
        used=num_bytes / max_bytes if max_bytes else None,
        num_blocks=int(value(level_catalog.LEVEL_BLOCKS)),
        num_bytes=int(num_bytes),
        max_bytes=int(max_bytes) or None,
        hit_rate=_hit_rate(level, window),
        is_up=value(level_catalog.LEVEL_UP) > 0.0,
        mode=_mode(level, window.last),
    )


def _mode(level: Level, reading: Reading) -> LevelMode:
    """As rules have it, where some may act upon the level."""
    return next(
        (mode for mode in LevelMode if reading.value(rule_catalog.LEVEL_MODE, level=level.value, mode=mode.value)),
        LevelMode.NORMAL,
    )


def _hit_rate(level: Level, window: Window) -> float | None:
    return window.share(kv_catalog.FOUND_TOKENS, kv_catalog.PROMPT_TOKENS, level=level.value)


def _blocks(reading: Reading) -> BlocksLine:
    def in_state(state: str) -> int:
        return int(reading.value(kv_catalog.KV_BLOCKS_BY_STATE, state=state) or 0)

    return BlocksLine(
        released=in_state("released"),
        free=in_state("free"),
        reserved=in_state("reserved"),
        filling=in_state("filling"),
        sealed=in_state("sealed"),
        idle=in_state("idle"),
        fragmentation=reading.value(kv_catalog.KV_CHUNK_FRAGMENTATION) or 0.0,
    )


def _heat(cells: Sequence[HeatCell], levels: Sequence[Level], now_s: float) -> Heat:
    """Of cells without prompts too, between those that had some and now."""
    if not cells:
        return Heat(CELL_S, [HeatRow(level.value, []) for level in levels])
    by_number = {cell.number: cell for cell in cells}
    numbers = range(max(min(by_number), int(now_s // CELL_S) - MAX_CELLS + 1), int(now_s // CELL_S) + 1)
    return Heat(
        CELL_S,
        [
            HeatRow(
                level.value, [(now_s - number * CELL_S, _share(by_number.get(number), level)) for number in numbers]
            )
            for level in levels
        ],
    )


def _share(cell: HeatCell | None, level: Level) -> float | None:
    if cell is None or cell.num_prompt_tokens == 0:
        return None
    return cell.found.get(level.value, 0) / cell.num_prompt_tokens


def _shown(step: StepLine, now_s: float) -> ShownStep:
    return ShownStep(
        step.step_id,
        now_s - step.computed_s,
        step.took_s,
        step.predicted_s,
        step.num_decodes,
        step.num_prompt_tokens,
        list(step.prompts),
    )


def _time(window: Window) -> dict[str, float]:
    """Where the engine's time went, as shares of it; empty when it had none."""
    parts = {part.name.lower(): window.gained(ENGINE_SECONDS, part=part.name.lower()) for part in EnginePart}
    total = sum(parts.values())
    return {name: seconds / total for name, seconds in parts.items()} if total > 0.0 else {}


def _processes(window: Window) -> list[ProcessLine]:
    resident: Mapping[tuple[str, ...], Sequence[float]] = window.last.values(process_catalog.PROCESS_RESIDENT_BYTES)
    return [
        ProcessLine(name, int(values[0]), window.rate(process_catalog.PROCESS_CPU_SECONDS, process=name))
        for (name,), values in sorted(resident.items())
    ]
