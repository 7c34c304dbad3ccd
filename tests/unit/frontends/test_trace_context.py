import re

import pytest
from opentelemetry.trace import TraceState, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tailrace.frontends.trace_context import NO_TRACING, TraceContext, Tracing
from tailrace.frontends.trace_sampler import TraceSampler

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
ALWAYS = Tracing(TraceSampler())


def begun(*headers: tuple[str, str], tracing: Tracing = ALWAYS, before: str = "") -> TraceContext:
    trace = tracing.begin([(name.encode(), value.encode("latin-1")) for name, value in headers], before)
    assert trace is not None
    return trace


def test_a_request_goes_on_in_the_trace_of_who_asks_with_a_span_of_its_own() -> None:
    trace = begun(("traceparent", PARENT), ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"))

    assert (trace.trace_id, trace.parent_span_id, trace.is_sampled) == (TRACE_ID, SPAN_ID, True)
    assert trace.span_id != SPAN_ID
    assert trace.state == "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
    assert trace.traceparent == f"00-{TRACE_ID}-{trace.span_id}-01"
    assert re.fullmatch("[0-9a-f]{16}", trace.span_id)


def test_a_trace_that_is_not_recorded_stays_so() -> None:
    trace = begun(("traceparent", PARENT[:-1] + "0"))
    assert not trace.is_sampled
    assert trace.traceparent.endswith("-00")


def test_who_names_no_trace_gets_one_if_traces_are_recorded_here() -> None:
    first, second = begun(), begun()
    assert len({first.trace_id, second.trace_id, first.span_id, second.span_id}) == 4
    assert (first.parent_span_id, first.is_sampled) == ("", True)
    assert TraceContext.of_traceparent(first.traceparent) == TraceContext(first.trace_id, first.span_id, True)
    assert NO_TRACING.begin([]) is None


def test_a_server_that_records_nothing_still_goes_on_in_the_trace_of_who_asks() -> None:
    trace = begun(("traceparent", PARENT), tracing=NO_TRACING)
    assert (trace.trace_id, trace.parent_span_id, trace.is_sampled) == (TRACE_ID, SPAN_ID, True)


def test_an_answer_that_is_taken_up_stays_in_its_trace_unless_its_client_names_another() -> None:
    assert begun(before=PARENT).trace_id == TRACE_ID
    assert begun(before=PARENT).parent_span_id == SPAN_ID
    assert begun(before=PARENT, tracing=NO_TRACING).trace_id == TRACE_ID
    other = f"00-{'1' * 32}-{'2' * 16}-00"
    assert begun(("traceparent", other), before=PARENT).trace_id == "1" * 32


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        PARENT[:-1],
        PARENT + "0",
        PARENT + "-more",  # of a version that has no more
        PARENT.upper(),
        PARENT.replace("00-4", "ff-4"),
        PARENT.replace("00-4", "0-4"),
        PARENT.replace(TRACE_ID, "0" * 32),
        PARENT.replace(SPAN_ID, "0" * 16),
        PARENT.replace(TRACE_ID, TRACE_ID[:-1] + "."),
        PARENT.replace("-", "_"),
        PARENT.replace("4bf", "4bf".replace("4", "\xb2")),
    ],
)
def test_what_is_no_traceparent_is_taken_for_none(value: str) -> None:
    assert begun(("traceparent", value), ("tracestate", "rojo=1")).trace_id != TRACE_ID
    assert begun(("traceparent", value), ("tracestate", "rojo=1")).state == ""
    assert NO_TRACING.begin([(b"traceparent", value.encode("latin-1"))]) is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    for value in (PARENT.replace("00-4", "cc-4"), PARENT.replace("00-4", "cc-4") + "-what-comes"):
        trace = begun(("traceparent", value))
        assert (trace.trace_id, trace.is_sampled) == (TRACE_ID, True)
        assert trace.traceparent.startswith("00-")
    assert begun(("traceparent", PARENT.replace("00-4", "cc-4") + ".")).trace_id != TRACE_ID


def test_two_parents_are_none() -> None:
    assert begun(("traceparent", PARENT), ("traceparent", PARENT)).trace_id != TRACE_ID


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (["a=1", "b=2"], "a=1,b=2"),
        ([" a=1 ,\tb=2"], "a=1,b=2"),
        (["a=1,,b=2"], "a=1,b=2"),
        (["tenant@system=x y"], "tenant@system=x y"),
        (["1a@b=1"], "1a@b=1"),
        (["1a=1"], ""),  # only a tenant begins with a digit
        (["A=1"], ""),
        (["a=1,a=2"], ""),
        (["a"], ""),
        (["a=1=2"], ""),
        (["a="], ""),
        (["a=\x07"], ""),
        ([",".join(f"k{i}=1" for i in range(32))], ",".join(f"k{i}=1" for i in range(32))),
        ([",".join(f"k{i}=1" for i in range(33))], ""),
        (["a=" + "x" * 256], "a=" + "x" * 256),
        (["a=" + "x" * 257], ""),
    ],
)
def test_the_state_of_a_trace_is_kept_whole_or_not_at_all(lines: list[str], state: str) -> None:
    trace = begun(("traceparent", PARENT), *(("tracestate", line) for line in lines))
    assert (trace.trace_id, trace.state) == (TRACE_ID, state)


@pytest.mark.parametrize("value", [PARENT, PARENT[:-1] + "0", "00-x", PARENT + "-1", PARENT.replace("00-4", "fe-4")])
def test_opentelemetry_reads_the_same(value: str) -> None:
    context = TraceContextTextMapPropagator().extract({"traceparent": value, "tracestate": "a=1,b=2"})
    theirs = get_current_span(context).get_span_context()
    ours = TraceContext.of_traceparent(value)
    if ours is None:
        assert not theirs.is_valid
        return
    assert (theirs.trace_id, theirs.span_id) == (int(ours.trace_id, 16), int(ours.span_id, 16))
    assert theirs.trace_flags.sampled == ours.is_sampled
    assert theirs.trace_state == TraceState([("a", "1"), ("b", "2")])
