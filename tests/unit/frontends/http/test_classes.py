"""Service classes over HTTP: what decides, what is told, and what is counted."""

from typing import Any

import pytest
from starlette.types import ASGIApp

from tailrace.errors import Overloaded, RefusalReason
from tailrace.service.api import Standing
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import post
from tests.support.scripted_service import ScriptedService

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
STREAM = CHAT | {"stream": True}


@pytest.mark.parametrize("fields", [CHAT, STREAM])
async def test_every_answer_says_in_its_head_which_class_it_was_served_in(
    app: ASGIApp, service: ScriptedService, fields: dict[str, Any]
) -> None:
    assert (await post(app, "/v1/chat/completions", fields)).headers["x-service-class"] == "silver"
    answer = await post(app, "/v1/chat/completions", fields, x_llm_d_inference_objective="gold")
    assert answer.headers["x-service-class"] == "gold"
    assert [each.standing.class_name for each in service.generations] == ["silver", "gold"]


async def test_headers_win_over_the_body_and_their_targets_reach_the_service(
    app: ASGIApp, service: ScriptedService
) -> None:
    await post(
        app,
        "/v1/chat/completions",
        CHAT | {"service_tier": "flex", "priority": 3},
        x_llm_d_slo_ttft_ms="2000",
        x_llm_d_slo_tpot_ms="100",
        x_request_timeout_ms="5000",
        x_llm_d_inference_fairness_id="acme",
    )
    assert service.generation.standing == Standing("gold", "acme", ttft_s=2.0, itl_s=0.1, queue_ttl_s=5.0)


async def test_all_prompts_of_a_request_stand_alike(app: ASGIApp, service: ScriptedService) -> None:
    await post(app, "/v1/completions", {"prompt": ["a", "b"], "service_tier": "flex"})
    assert [each.standing.class_name for each in service.generations] == ["bronze", "bronze"]


@pytest.mark.parametrize(
    ("tier", "told"),
    [
        ("auto", "default"),
        ("default", "default"),
        ("fast", "priority"),
        ("priority", "priority"),
        ("flex", "flex"),
        ("gold", "gold"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_who_sends_a_service_tier_is_told_the_one_that_was_used(
    app: ASGIApp, path: str, tier: str, told: str
) -> None:
    fields = CHAT if "chat" in path else {"prompt": "Hi"}
    whole = await post(app, path, fields | {"service_tier": tier})
    assert whole.json()["service_tier"] == told
    options = {"stream": True, "stream_options": {"include_usage": True}}
    events = (await post(app, path, fields | {"service_tier": tier} | options)).events()
    assert {event["service_tier"] for event in events} == {told}


async def test_who_sends_none_is_told_none(app: ASGIApp) -> None:
    assert "service_tier" not in (await post(app, "/v1/chat/completions", CHAT | {"service_tier": None})).json()
    assert all("service_tier" not in event for event in (await post(app, "/v1/chat/completions", STREAM)).events())


@pytest.mark.parametrize(
    ("fields", "headers", "param"),
    [
        ({"service_tier": "turbo"}, {}, "service_tier"),
        ({"service_tier": 1}, {}, "service_tier"),
        ({"priority": "high"}, {}, "priority"),
        ({"priority": 1 << 40}, {}, "priority"),
        ({}, {"x_slo_ttft_ms": "soon"}, "x-slo-ttft-ms"),
        ({}, {"x_llm_d_inference_objective": "tin"}, "x-llm-d-inference-objective"),
        ({}, {"x_request_timeout_ms": "-1"}, "x-request-timeout-ms"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(
    app: ASGIApp, service: ScriptedService, fields: dict[str, object], headers: dict[str, str], param: str
) -> None:
    answer = await post(app, "/v1/chat/completions", STREAM | fields, **headers)
    assert answer.status == 400
    assert answer.json()["error"]["param"] == param
    assert "x-service-class" not in answer.headers
    assert service.generations == []


async def test_who_is_turned_away_is_told_the_class_and_counted_in_it(
    app: ASGIApp, service: ScriptedService, metrics: Metrics
) -> None:
    service.start_step = Overloaded("no", retry_after_s=1.0, reason=RefusalReason.TARGET_UNREACHABLE)
    answer = await post(app, "/v1/chat/completions", STREAM | {"service_tier": "priority"})
    assert answer.status == 429
    assert answer.headers["x-service-class"] == "gold"
    shown = metrics.render("")[0].decode()
    assert 'tailrace_requests_refused_total{class="gold",reason="target_unreachable"} 1.0' in shown
    assert 'tailrace_requests_refused_total{class="gold",reason="queue_full"} 0.0' in shown


async def test_gaps_are_counted_by_class_and_for_vllms_readers_all_together(app: ASGIApp, metrics: Metrics) -> None:
    for tier in ("priority", "flex", "flex"):
        await post(app, "/v1/chat/completions", STREAM | {"service_tier": tier})
    shown = metrics.render("")[0].decode()
    assert 'tailrace_inter_token_latency_seconds_count{class="gold"} 1.0' in shown
    assert 'tailrace_inter_token_latency_seconds_count{class="bronze"} 2.0' in shown
    assert 'vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 3.0' in shown
