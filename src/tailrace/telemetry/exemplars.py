"""Which observations of histograms lead to a trace: those of sampled ones. Others cost no more than without traces."""

import time
from collections.abc import Callable
from functools import partial

from tailrace.telemetry.series import Histogram

__all__ = ["Observe", "observer", "observing", "sampled_trace_id"]

_SAMPLED = 1  # the flag in a traceparent
_TRACE_ID, _FLAGS = slice(3, 35), slice(53, 55)  # version-traceid-parentid-flags

Observe = Callable[[Histogram, float], None]


def sampled_trace_id(trace: str) -> str | None:
    """The trace id in a W3C traceparent that has been checked; None: there is none, or nobody keeps what it says."""
    return trace[_TRACE_ID] if trace and int(trace[_FLAGS], 16) & _SAMPLED else None


def observer(trace: str) -> Observe:
    """How the figures of a request with this traceparent, or with none, are observed."""
    trace_id = sampled_trace_id(trace)
    return Histogram.observe if trace_id is None else partial(_observe_traced, trace_id, time.time())


def observing(histogram: Histogram, trace: str) -> Callable[[float], None]:
    """What observes one figure of this request again and again."""
    trace_id = sampled_trace_id(trace)
    if trace_id is None:
        return histogram.observe
    return lambda value: histogram.observe_traced(value, trace_id, time.time())


def _observe_traced(trace_id: str, at_s: float, histogram: Histogram, value: float) -> None:
    histogram.observe_traced(value, trace_id, at_s)
