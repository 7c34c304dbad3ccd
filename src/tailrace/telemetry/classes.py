"""How the requests of each service class fare, and what the scheduler does to keep their targets."""

from tailrace.classes import ServiceClasses
from tailrace.records import BeginningRecord, LoadRecord, RequestRecord, StepRecord
from tailrace.telemetry.catalogs import classes as class_catalog
from tailrace.telemetry.catalogs import requests as request_catalog
from tailrace.telemetry.catalogs import steps as step_catalog
from tailrace.telemetry.exemplars import Observe, observer
from tailrace.telemetry.series import Histogram, LabelledHistogram, LabelledNumber, Number, Series
from tailrace.types import FinishReason, PreemptionCause

__all__ = ["ClassMetrics", "ControlMetrics"]

_ENDS = (FinishReason.STOP, FinishReason.LENGTH, FinishReason.ABORT, FinishReason.ERROR)  # as the engine sees them


class ClassMetrics:
    """Written by the engine's thread. Labels are the names of the classes; who names none counts as of the default."""

    def __init__(self, classes: ServiceClasses) -> None:
        self._classes = classes
        self._names = [each.name for each in classes]
        known = [(name,) for name in self._names]
        ends = [(name, reason.value) for name in self._names for reason in _ENDS]
        self._running = LabelledNumber(class_catalog.CLASS_RUNNING, known)
        self._waiting = LabelledNumber(class_catalog.CLASS_WAITING, known)
        self._admitted = LabelledNumber(request_catalog.REQUESTS_ADMITTED, known)
        self._finished = LabelledNumber(request_catalog.REQUESTS_FINISHED, ends)
        self._on_target = LabelledNumber(class_catalog.ON_TARGET, known)
        self._off_target = LabelledNumber(class_catalog.OFF_TARGET, known)
        self._output_tokens = LabelledNumber(class_catalog.OUTPUT_TOKENS, known)
        self._late_tokens = LabelledNumber(class_catalog.LATE_TOKENS, known)
        causes = [(name, cause.value) for name in self._names for cause in PreemptionCause]
        self._preempted = LabelledNumber(class_catalog.PREEMPTED, causes)
        self._recomputed = LabelledNumber(class_catalog.RECOMPUTED_TOKENS, causes)
        self._queue = LabelledHistogram(request_catalog.QUEUE_SECONDS, known)
        self._first_token = LabelledHistogram(request_catalog.FIRST_TOKEN_SECONDS, known)
        self._prefill = LabelledHistogram(request_catalog.PREFILL_SECONDS, known)
        self._decode = LabelledHistogram(request_catalog.DECODE_SECONDS, known)
        self._inference = LabelledHistogram(request_catalog.INFERENCE_SECONDS, known)
        self._time_per_token = LabelledHistogram(request_catalog.TIME_PER_TOKEN_SECONDS, known)
        self._request = LabelledHistogram(request_catalog.REQUEST_SECONDS, known)
        self._prompt_tokens = LabelledHistogram(request_catalog.REQUEST_PROMPT_TOKENS, known)
        self._computed_tokens = LabelledHistogram(request_catalog.REQUEST_COMPUTED_TOKENS, known)
        self._max_tokens = LabelledHistogram(request_catalog.REQUEST_MAX_TOKENS, known)
        self._generation_tokens = LabelledHistogram(request_catalog.REQUEST_GENERATION_TOKENS, known)
        self._shown: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        self.series: tuple[Series, ...] = tuple(
            value for value in vars(self).values() if isinstance(value, LabelledNumber | LabelledHistogram)
        )

    def record_load(self, load: StepRecord | LoadRecord) -> None:
        if (shown := (load.running_by_class, load.waiting_by_class)) == self._shown:
            return
        self._shown = shown
        for numbers, counts in ((self._running, load.running_by_class), (self._waiting, load.waiting_by_class)):
            for name, count in zip(self._names, counts, strict=False):
                numbers.set(count, name)

    def record_step(self, step: StepRecord) -> None:
        for count in step.preemptions:
            self._preempted.follow(count.num_requests, count.class_name, count.cause.value)
            self._recomputed.follow(count.num_lost_tokens, count.class_name, count.cause.value)

    def record_request(self, request: RequestRecord) -> None:
        """One that was not refused, nor computed ahead."""
        name = self._classes.named(request.class_name).name
        self._finished.add(1, name, request.finish_reason.value)
        self._output_tokens.add(request.num_output_tokens, name)
        self._late_tokens.add(request.num_late_tokens, name)
        if request.is_on_target:
            self._on_target.add(1, name)
        elif not _left_early(request):
            self._off_target.add(1, name)
        self._observe(request, name)

    def record_beginning(self, beginning: BeginningRecord) -> None:
        """One that has its first token."""
        name = self._classes.named(beginning.class_name).name
        observe = observer(beginning.trace)
        observe(self._first_token.of(name), beginning.first_token_s - beginning.arrived_s)
        observe(self._prefill.of(name), beginning.first_token_s - beginning.started_s)
        self._admit(beginning, beginning.started_s, name, observe)

    def _admit(self, request: BeginningRecord | RequestRecord, started_s: float, name: str, observe: Observe) -> None:
        self._admitted.add(1, name)
        observe(self._queue.of(name), started_s - request.arrived_s)
        self._computed_tokens.of(name).observe(request.num_prompt_tokens - request.num_cached_tokens)

    def _observe(self, request: RequestRecord, name: str) -> None:
        observe = observer(request.trace)
        observe(self._request.of(name), request.finished_s - request.arrived_s)
        self._prompt_tokens.of(name).observe(request.num_prompt_tokens)
        self._generation_tokens.of(name).observe(request.num_output_tokens)
        if request.max_tokens:
            self._max_tokens.of(name).observe(request.max_tokens)
        if request.started_s is None or request.num_resumed_tokens:
            return
        observe(self._inference.of(name), request.finished_s - request.started_s)
        if request.first_token_s is None:
            self._admit(request, request.started_s, name, observe)
        else:
            self._observe_decode(request.finished_s - request.first_token_s, request.num_output_tokens, name, observe)

    def _observe_decode(self, decode_s: float, num_output_tokens: int, name: str, observe: Observe) -> None:
        observe(self._decode.of(name), decode_s)
        if num_output_tokens > 1:
            observe(self._time_per_token.of(name), decode_s / (num_output_tokens - 1))


def _left_early(request: RequestRecord) -> bool:
    """Whether the client went away while its first token was not due yet: nobody knows what it would have got."""
    if request.finish_reason is not FinishReason.ABORT or request.first_token_s is not None:
        return False
    return request.ttft_target_s is None or request.finished_s - request.arrived_s <= request.ttft_target_s


class ControlMetrics:
    """Written by the engine's thread. All zeros in processes without an engine: those of a server are added up."""

    def __init__(self, classes: ServiceClasses) -> None:
        self._classes = classes
        self._targets = LabelledNumber(class_catalog.CLASS_TARGET_SECONDS)
        self._scale = Number(class_catalog.TARGET_SCALE)
        self._running_limit = Number(class_catalog.RUNNING_LIMIT)
        self._pace = Number(class_catalog.PACE)
        self._error = Histogram(class_catalog.STEP_PREDICTION_ERROR)
        self._predicted = LabelledNumber(step_catalog.STEP_PREDICTION_SECONDS, [("predicted",), ("real",)])
        self.series: tuple[Series, ...] = (
            self._scale,
            self._targets,
            self._running_limit,
            self._pace,
            self._error,
            self._predicted,
        )

    def begin(self, target_scale: float, max_running: int) -> None:
        """What holds before the first step. Before the engine's thread writes."""
        self._set_scale(target_scale)
        self._pace.value = 1
        self._running_limit.value = max_running

    def record(self, step: StepRecord) -> None:
        if step.target_scale != self._scale.value:
            self._set_scale(step.target_scale)
        if step.max_running is not None:
            self._running_limit.value = step.max_running
        if step.pace is not None:
            self._pace.value = step.pace
        took_s = step.computed_s - step.planned_s
        if step.predicted_s is not None and took_s > 0.0:
            self._error.observe(abs(step.predicted_s - took_s) / took_s)
            self._predicted.add(step.predicted_s, "predicted")
            self._predicted.add(took_s, "real")

    def _set_scale(self, scale: float) -> None:
        self._scale.value = scale
        for each in self._classes.scaled(scale):
            self._targets.set(each.ttft_s, each.name, "first_token")
            self._targets.set(each.itl_s, each.name, "token_gap")
