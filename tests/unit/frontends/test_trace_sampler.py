import random

import pytest
from opentelemetry.sdk.trace.sampling import Decision, ParentBasedTraceIdRatio, Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tailrace.errors import SetupError
from tailrace.frontends.trace_sampler import TraceSampler


def theirs_samples(sampler: Sampler, trace_id: str, is_parent_sampled: bool | None) -> bool:
    context = None
    if is_parent_sampled is not None:
        flags = TraceFlags(int(is_parent_sampled))
        context = set_span_in_context(
            NonRecordingSpan(SpanContext(int(trace_id, 16), 1, is_remote=True, trace_flags=flags))
        )
    return sampler.should_sample(context, int(trace_id, 16), "x").decision is Decision.RECORD_AND_SAMPLE


TRACE_IDS = [f"{random.Random(number).getrandbits(128):032x}" for number in range(200)]


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 0.999, 1.0])
def test_the_share_is_that_of_opentelemetry(ratio: float) -> None:
    ours, theirs = TraceSampler(ratio, follows_parent=False), TraceIdRatioBased(ratio)
    for trace_id in TRACE_IDS:
        wanted = theirs_samples(theirs, trace_id, None)
        assert ours.samples(trace_id, None) == ours.samples(trace_id, True) == wanted


@pytest.mark.parametrize("is_sampled", [True, False])
def test_who_follows_the_parent_decides_as_opentelemetry_does(is_sampled: bool) -> None:
    ours, theirs = TraceSampler(0.5), ParentBasedTraceIdRatio(0.5)
    for trace_id in TRACE_IDS:
        assert ours.samples(trace_id, is_sampled) == theirs_samples(theirs, trace_id, is_sampled) == is_sampled
        assert ours.samples(trace_id, None) == theirs_samples(theirs, trace_id, None)


@pytest.mark.parametrize(
    ("name", "argument", "sampler"),
    [
        ("", "", TraceSampler(1.0, follows_parent=True)),
        ("always_on", "0.5", TraceSampler(1.0, follows_parent=False)),
        ("always_off", "", TraceSampler(0.0, follows_parent=False)),
        ("traceidratio", "0.25", TraceSampler(0.25, follows_parent=False)),
        ("traceidratio", "", TraceSampler(1.0, follows_parent=False)),
        ("parentbased_always_off", "", TraceSampler(0.0, follows_parent=True)),
        ("parentbased_traceidratio", "0.001", TraceSampler(0.001, follows_parent=True)),
    ],
)
def test_the_variables_of_opentelemetry_choose(name: str, argument: str, sampler: TraceSampler) -> None:
    assert TraceSampler.of({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument}) == sampler
    assert TraceSampler.of({}) == TraceSampler()


@pytest.mark.parametrize(
    ("name", "argument", "complaint"),
    [
        ("jaeger_remote", "", "OTEL_TRACES_SAMPLER 'jaeger_remote' is not supported: it is one of always_on"),
        ("traceidratio", "half", "OTEL_TRACES_SAMPLER_ARG 'half' is no share of all traces"),
        ("traceidratio", "1.5", "OTEL_TRACES_SAMPLER_ARG '1.5' is no share of all traces"),
        ("traceidratio", "nan", "OTEL_TRACES_SAMPLER_ARG 'nan' is no share of all traces"),
    ],
)
def test_what_they_cannot_say_is_refused(name: str, argument: str, complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint):
        TraceSampler.of({"OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": argument})
