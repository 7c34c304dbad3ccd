from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.spans import Span, SpanEvent, request_span
from tailrace.types import Beginning, PromptChunk, SamplingParams

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def life_of_a_chat() -> RequestLife:
    """Accepted at 10 s; 128 and 60 tokens of its prompt are computed, 64 came from a level."""
    return RequestLife(
        request_id="r",
        endpoint="chat",
        class_name="gold",
        accepted_s=10.0,
        trace=TRACE,
        parsed_s=10.01,
        tokenised_s=10.02,
        submitted_s=10.03,
        beginning=Beginning(
            taken_s=10.04,
            started_s=10.2,
            computed_s=10.5,
            fetch_s=0.1,
            chunks=(PromptChunk(10.2, 10.3, 128), PromptChunk(10.35, 10.5, 60)),
            num_preemptions=1,
        ),
        received_s=10.51,
        text_s=10.52,
        written_s=10.53,
        ended_s=12.0,
        finish_reason="stop",
        num_prompt_tokens=252,
        num_output_tokens=20,
        num_reasoning_tokens=12,
        found={"engine": 48, "host": 16},
        miss_reason="evicted",
        sampling=SamplingParams(max_tokens=100, temperature=0.7, top_k=40),
        seed=5,
        is_streamed=True,
        status=200,
        answer_id="chatcmpl-1",
    )


def outline(span: Span) -> list[tuple[str, float, float]]:
    return [(child.name, child.start_s, child.end_s) for child in span.children]


def test_a_request_is_a_span_that_says_what_was_asked_and_answered() -> None:
    span = request_span(life_of_a_chat(), "tiny")
    assert (span.name, span.start_s, span.end_s, span.is_error) == ("chat tiny", 10.0, 12.0, False)
    assert span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "tailrace",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.stream": True,
        "gen_ai.request.seed": 5,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.top_k": 40,
        "gen_ai.response.model": "tiny",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 10.53 - 10.0,
        "gen_ai.usage.input_tokens": 252,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "http.response.status_code": 200,
        "tailrace.request.id": "r",
        "tailrace.endpoint": "chat",
        "tailrace.class": "gold",
        "tailrace.cache.engine.tokens": 48,
        "tailrace.cache.host.tokens": 16,
        "tailrace.cache.miss_reason": "evicted",
    }


def test_below_it_is_what_its_time_went_into() -> None:
    span = request_span(life_of_a_chat(), "tiny")
    assert outline(span) == [
        ("prepare", 10.0, 10.03),
        ("queue", 10.03, 10.2),
        ("fetch", 10.2 - 0.1, 10.2),
        ("prefill", 10.2, 10.3),
        ("prefill", 10.35, 10.5),
        ("decode", 10.5, 12.0),
        ("stream", 10.51, 12.0),
    ]
    prefills = [child.attributes for child in span.children if child.name == "prefill"]
    assert prefills == [{"tailrace.tokens": 128}, {"tailrace.tokens": 60}]
    assert span.children[-2].attributes == {"tailrace.preemptions": 1}
    assert span.children[-1].events == [SpanEvent("first_text", 10.52), SpanEvent("first_write", 10.53)]


def test_who_was_refused_in_the_queue_has_waited_until_then_and_broke_nothing() -> None:
    life = life_of_a_chat()
    life.beginning = life.received_s = life.text_s = life.written_s = life.finish_reason = None
    life.error, life.status, life.found = "queue_full", 429, {}
    span = request_span(life, "tiny")
    assert outline(span) == [("prepare", 10.0, 10.03), ("queue", 10.03, 12.0)]
    assert not span.is_error
    assert span.attributes["error.type"] == "queue_full"
    assert span.attributes["http.response.status_code"] == 429
    assert span.attributes["gen_ai.usage.cache_read.input_tokens"] == 0


def test_a_body_that_could_not_be_read_is_a_span_alone() -> None:
    life = RequestLife(request_id="r", endpoint="completion", class_name="", accepted_s=1.0, ended_s=1.5, status=400)
    span = request_span(life, "tiny")
    assert (span.name, span.children) == ("text_completion tiny", [])
    assert "tailrace.class" not in span.attributes


def test_a_fault_of_the_server_is_an_error_of_its_kind() -> None:
    life = life_of_a_chat()
    life.error = "unavailable"
    span = request_span(life, "tiny")
    assert (span.is_error, span.attributes["error.type"]) == (True, "unavailable")


def test_the_death_of_an_engine_is_an_event() -> None:
    life = life_of_a_chat()
    life.resumed_s = [11.0, 13.0]  # the second after its end
    assert request_span(life, "tiny").events == [SpanEvent("tailrace.engine.replaced", 11.0)]


def test_nothing_reaches_beyond_the_request() -> None:
    """Its client was gone before the engine had begun."""
    life = life_of_a_chat()
    life.ended_s = 10.25
    span = request_span(life, "tiny")
    for child in span.children:
        assert span.start_s <= child.start_s <= child.end_s <= span.end_s
        assert all(child.start_s <= event.at_s <= child.end_s for event in child.events)
    assert outline(span)[-1] == ("stream", 10.25, 10.25)
