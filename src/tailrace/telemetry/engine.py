"""Counts what the engine's records tell: a sink for its steps, its requests and its load."""

from tailrace.classes import ServiceClasses
from tailrace.records import BeginningRecord, LoadRecord, Record, RequestRecord, StepRecord
from tailrace.telemetry.catalogs import kv as kv_catalog
from tailrace.telemetry.catalogs import requests as request_catalog
from tailrace.telemetry.catalogs import steps as step_catalog
from tailrace.telemetry.classes import ClassMetrics, ControlMetrics
from tailrace.telemetry.prefixes import PrefixMetrics
from tailrace.telemetry.series import Histogram, LabelledNumber, Number, Series
from tailrace.types import FinishReason

__all__ = ["EngineMetrics"]


class EngineMetrics:
    """Call `record` from the engine's thread only; read `series` from anywhere."""

    def __init__(self, classes: ServiceClasses) -> None:
        self._running = Number(request_catalog.REQUESTS_RUNNING)
        self._waiting = Number(request_catalog.REQUESTS_WAITING)
        self._deferred = Number(request_catalog.REQUESTS_DEFERRED)
        self._blocks = Number(kv_catalog.KV_BLOCKS)
        self._blocks_used = Number(kv_catalog.KV_BLOCKS_USED)
        self._blocks_cached = Number(kv_catalog.KV_BLOCKS_CACHED)
        self._kv_config = LabelledNumber(kv_catalog.KV_CONFIG)
        self._kv_usage = Number(kv_catalog.KV_USAGE)
        self._generation_tokens = Number(step_catalog.GENERATION_TOKENS)
        self._computed = LabelledNumber(step_catalog.COMPUTED_TOKENS, [("prompt",), ("output",)])
        self._preemptions = Number(request_catalog.PREEMPTIONS)
        self._aborted = Number(request_catalog.REQUESTS_ABORTED)
        self._warmups = LabelledNumber(request_catalog.WARMUPS, [("computed",), ("gave_way",), ("failed",)])
        self._warmup_tokens = Number(request_catalog.WARMUP_TOKENS)
        self._prediction_error = Histogram(request_catalog.FIRST_TOKEN_PREDICTION_ERROR)
        self._budget = Number(step_catalog.STEP_BUDGET_TOKENS)
        self._step_tokens = Histogram(step_catalog.STEP_TOKENS)
        self._step_sequences = Histogram(step_catalog.STEP_SEQUENCES)
        self._step = Histogram(step_catalog.STEP_SECONDS)
        self._step_parts = LabelledNumber(step_catalog.STEP_PART_SECONDS, [("plan",), ("compute",), ("publish",)])
        own: tuple[Series, ...] = tuple(vars(self).values())
        self._prefixes = PrefixMetrics()
        self._by_class = ClassMetrics(classes)
        self.control = ControlMetrics(classes)
        self.series: tuple[Series, ...] = (
            *own,
            *self._prefixes.series,
            *self._by_class.series,
            *self.control.series,
        )

    def begin(self, *, block_tokens: int, num_blocks: int, budget_tokens: int) -> None:
        """What the engine was built with. Before its thread writes."""
        self._budget.value = budget_tokens
        self._kv_config.set(1, str(block_tokens), str(num_blocks))
        self._blocks.value = num_blocks

    def record(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self._record_step(record)
            self._record_load(record)
        elif isinstance(record, BeginningRecord):
            self._record_beginning(record)
        elif isinstance(record, RequestRecord):
            self._record_request(record)
        elif isinstance(record, LoadRecord):
            self._record_load(record)

    def _record_step(self, step: StepRecord) -> None:
        self._generation_tokens.value += step.num_sampled
        self._preemptions.follow(step.num_preempted)
        self._computed.add(step.num_prefill_tokens, "prompt")
        self._computed.add(step.num_tokens - step.num_prefill_tokens, "output")
        self._step_tokens.observe(step.num_tokens)
        self._step_sequences.observe(step.num_sequences)
        self._record_step_time(step)
        self._by_class.record_step(step)
        self.control.record(step)

    def _record_load(self, load: StepRecord | LoadRecord) -> None:
        self._by_class.record_load(load)
        self._running.value = load.num_running
        self._waiting.value = load.num_waiting
        self._deferred.value = load.num_deferred
        self._blocks.value = load.num_blocks_total
        self._blocks_used.value = load.num_blocks_used
        self._blocks_cached.value = load.num_blocks_cached
        self._kv_usage.value = load.num_blocks_used / load.num_blocks_total if load.num_blocks_total else 0.0

    def _record_step_time(self, step: StepRecord) -> None:
        self._step.observe(step.finished_s - step.started_s)
        self._step_parts.add(step.planned_s - step.started_s, "plan")
        self._step_parts.add(step.computed_s - step.planned_s, "compute")
        self._step_parts.add(step.finished_s - step.computed_s, "publish")

    def _record_request(self, request: RequestRecord) -> None:
        if request.is_warmup:
            self._record_warmup(request)
            return
        if request.refused_for is not None:
            return  # counted by whoever tells the client, as those are whom the inbox refuses
        self._by_class.record_request(request)
        self._aborted.value += request.finish_reason is FinishReason.ABORT
        if request.started_s is not None and request.first_token_s is None:
            self._prefixes.record(request)  # of others, as they began

    def _record_beginning(self, beginning: BeginningRecord) -> None:
        self._by_class.record_beginning(beginning)
        self._prefixes.record(beginning)
        first_token_s = beginning.first_token_s - beginning.arrived_s
        if beginning.predicted_ttft_s is not None and first_token_s > 0.0:
            self._prediction_error.observe(abs(beginning.predicted_ttft_s - first_token_s) / first_token_s)

    def _record_warmup(self, request: RequestRecord) -> None:
        """Computed ahead for others: no user's request, so it is in no figure about those."""
        is_whole = request.finish_reason in {FinishReason.STOP, FinishReason.LENGTH}
        gave_way = request.finish_reason is FinishReason.ABORT
        self._warmups.add(1, "computed" if is_whole else "gave_way" if gave_way else "failed")
        if is_whole:
            self._warmup_tokens.value += request.num_prompt_tokens - request.num_cached_tokens
