"""Routes, errors and request ids: what every answer has, whatever was asked."""

import pytest
from starlette.types import ASGIApp

from tailrace.errors import ContextTooLong, EngineError, Overloaded, RefusalReason, UnavailableError
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import ask, post, talk
from tests.support.scripted_service import ScriptedService

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
OPENAI_ERROR = {"message", "type", "param", "code"}


@pytest.mark.parametrize("prefix", ["", "/v1", "/beta"])
async def test_every_route_is_there_under_each_prefix(app: ASGIApp, prefix: str) -> None:
    for path in ("/models", "/models/tiny", "/health", "/livez", "/ready", "/readyz", "/metrics", "/version"):
        assert (await ask(app, prefix + path)).status == 200, path
    assert (await post(app, prefix + "/chat/completions", CHAT)).status == 200
    assert (await post(app, prefix + "/completions", {"prompt": "Hi"})).status == 200
    assert (await post(app, prefix + "/tokenize", {"prompt": "Hi"})).status == 200
    assert (await post(app, prefix + "/detokenize", {"tokens": [72]})).status == 200


async def test_an_unknown_path_is_404_in_the_shape_of_the_api(app: ASGIApp) -> None:
    answer = await ask(app, "/v1/nothing")
    assert answer.status == 404
    assert answer.json()["error"].keys() == OPENAI_ERROR
    assert "/v1/nothing" in answer.json()["error"]["message"]


async def test_a_wrong_method_is_405_and_names_the_right_one(app: ASGIApp) -> None:
    answer = await ask(app, "/v1/chat/completions")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json()["error"]["code"] == "method_not_allowed"


async def test_head_is_answered_like_get(app: ASGIApp) -> None:
    assert (await ask(app, "/health", method="HEAD")).status == 200


@pytest.mark.parametrize("length", ["100001", None])
async def test_a_body_over_the_limit_is_413(app: ASGIApp, service: ScriptedService, length: str | None) -> None:
    headers = {"content-type": "application/json"} | ({"content-length": length} if length else {})
    answer = await talk(app, "/v1/completions", b"x" * 100_001, headers=headers).end()
    assert answer.status == 413
    assert "100000" in answer.json()["error"]["message"]
    assert service.generations == []


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_another_kind_of_body_is_415(app: ASGIApp, headers: dict[str, str]) -> None:
    answer = await talk(app, "/v1/completions", b'{"prompt":"Hi"}', headers=headers).end()
    assert answer.status == 415
    assert answer.json()["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize("headers", [{}, {"content-type": 'Application/JSON; charset="UTF-8"'}])
async def test_json_is_taken_with_or_without_being_named(app: ASGIApp, headers: dict[str, str]) -> None:
    assert (await talk(app, "/v1/completions", b'{"prompt":"Hi"}', headers=headers).end()).status == 200


async def test_a_request_id_is_echoed_and_reaches_the_service_made_unique(
    app: ASGIApp, service: ScriptedService
) -> None:
    for _ in range(2):
        answer = await post(app, "/v1/completions", {"prompt": "Hi"}, x_request_id="abc-1")
        assert answer.headers["x-request-id"] == "abc-1"
    first, second = (generation.request_id for generation in service.generations)
    assert first.startswith("abc-1-")
    assert second.startswith("abc-1-")
    assert first != second


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "a\r\nset-cookie: b", "é"])
async def test_an_unsafe_request_id_is_replaced(app: ASGIApp, bad: str) -> None:
    answer = await ask(app, "/nothing", headers={"x-request-id": bad})
    assert answer.headers["x-request-id"] != bad
    assert len(answer.headers["x-request-id"]) == 32


async def test_an_overloaded_server_says_when_to_come_back(app: ASGIApp, service: ScriptedService) -> None:
    service.start_step = Overloaded("too many", retry_after_s=1.2, reason=RefusalReason.TENANT_LIMIT)
    answer = await post(app, "/v1/chat/completions", CHAT)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "2"
    assert answer.headers["retry-after-ms"] == "1200"
    assert answer.headers["x-llm-d-request-dropped-reason"] == "tenant_limit"
    assert answer.json()["error"] == {
        "message": "too many",
        "type": "rate_limit_error",
        "param": None,
        "code": "tenant_limit",
    }


async def test_a_refusal_of_the_service_keeps_its_field_and_code(app: ASGIApp, service: ScriptedService) -> None:
    service.start_step = ContextTooLong("too long", param="messages")
    answer = await post(app, "/v1/chat/completions", CHAT | {"stream": True})
    assert answer.status == 400
    assert answer.json()["error"]["param"] == "messages"
    assert answer.json()["error"]["code"] == "context_length_exceeded"


async def test_an_unavailable_service_is_503(app: ASGIApp, service: ScriptedService) -> None:
    service.start_step = UnavailableError("draining", retry_after_s=20.5)
    answer = await post(app, "/v1/chat/completions", CHAT)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "21"
    assert answer.json()["error"]["type"] == "server_error"


async def test_a_server_that_is_not_ready_lives_but_serves_nothing(app: ASGIApp, service: ScriptedService) -> None:
    service.is_ready = False
    assert (await ask(app, "/health")).status == 200
    assert (await ask(app, "/ready")).status == 503
    assert (await post(app, "/v1/chat/completions", CHAT)).status == 503
    assert service.generations == []


@pytest.mark.parametrize("fault", [EngineError("/secret/path"), ZeroDivisionError("/secret/path")])
async def test_our_own_fault_is_logged_and_not_shown(
    app: ASGIApp,
    service: ScriptedService,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
) -> None:
    monkeypatch.delenv("TAILRACE_DEBUG", raising=False)
    service.start_step = fault
    answer = await post(app, "/v1/chat/completions", CHAT, x_request_id="find-me")
    assert answer.status == 500
    assert b"/secret/path" not in answer.body
    assert b"Traceback" not in answer.body
    assert "find-me" in answer.json()["error"]["message"]
    assert f"request find-me failed: {type(fault).__name__} at tests.support.scripted_service.start:" in caplog.text
    assert "/secret/path" not in caplog.text
    assert "Traceback" not in caplog.text

    monkeypatch.setenv("TAILRACE_DEBUG", "1")
    await post(app, "/v1/chat/completions", CHAT)
    assert "/secret/path" in caplog.text


async def test_models_are_listed_under_all_their_names(app: ASGIApp) -> None:
    listed = (await ask(app, "/v1/models")).json()
    assert listed["object"] == "list"
    assert [entry["id"] for entry in listed["data"]] == ["tiny", "tiny-latest"]
    assert listed["data"][1] == {
        "id": "tiny-latest",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "tailrace",
        "root": "tiny",
        "max_model_len": 512,
    }


async def test_one_model_is_found_by_name_and_others_are_404(app: ASGIApp) -> None:
    assert (await ask(app, "/v1/models/tiny-latest")).json()["root"] == "tiny"
    missing = await ask(app, "/v1/models/org/other")
    assert missing.status == 404
    assert missing.json()["error"]["code"] == "model_not_found"


async def test_the_version_is_told(app: ASGIApp) -> None:
    assert (await ask(app, "/version")).json() == {"version": "1.2.3"}


async def test_what_each_expert_computed_is_told(app: ASGIApp, metrics: Metrics) -> None:
    assert (await ask(app, "/debug/experts")).json() == {"layers": []}
    metrics.experts.watch(lambda: {1: [3, 0], 2: [1, 2]})
    assert (await ask(app, "/debug/experts")).json() == {
        "layers": [{"layer": 1, "tokens": [3, 0]}, {"layer": 2, "tokens": [1, 2]}]
    }


async def test_requests_are_counted_by_route_and_status(app: ASGIApp, metrics: Metrics) -> None:
    await ask(app, "/v1/health")
    await ask(app, "/nothing")
    await post(app, "/v1/completions", {"prompt": 1})
    exposition = (await ask(app, "/metrics")).body.decode()
    assert 'tailrace_http_requests_total{route="/health",status="200"} 1.0' in exposition
    assert 'tailrace_http_requests_total{route="none",status="404"} 1.0' in exposition
    assert 'tailrace_http_requests_total{route="/completions",status="400"} 1.0' in exposition
    assert "tailrace_http_requests_in_flight 1.0" in exposition  # the scrape itself


async def test_metrics_come_as_open_metrics_when_asked(app: ASGIApp) -> None:
    answer = await ask(app, "/metrics", headers={"accept": "application/openmetrics-text"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_text_is_tokenised_with_its_strings_on_demand(app: ASGIApp) -> None:
    plain = (await post(app, "/tokenize", {"prompt": "Hi", "model": "tiny"})).json()
    assert plain == {"count": 2, "max_model_len": 512, "tokens": [72, 105], "token_strs": None}
    shown = (await post(app, "/tokenize", {"prompt": "Hi", "return_token_strs": True})).json()
    assert shown["token_strs"] == ["H", "i"]


async def test_messages_are_tokenised_through_the_template(app: ASGIApp) -> None:
    assert (await post(app, "/tokenize", CHAT)).json()["count"] > 2


@pytest.mark.parametrize("fields", [{}, {"prompt": "a", **CHAT}, {**CHAT, "add_special_tokens": True}])
async def test_tokenize_takes_either_a_prompt_or_messages(app: ASGIApp, fields: dict[str, object]) -> None:
    assert (await post(app, "/tokenize", fields)).status == 400


async def test_ids_are_turned_back_into_text(app: ASGIApp) -> None:
    assert (await post(app, "/detokenize", {"tokens": [72, 105]})).json() == {"prompt": "Hi"}


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embeddings"])
async def test_embeddings_are_refused_by_name(app: ASGIApp, path: str) -> None:
    answer = await post(app, path, {"input": "a", "model": "tiny"})
    assert answer.status == 400
    assert "has no embeddings" in answer.json()["error"]["message"]


async def test_tokens_of_messages_are_counted_with_their_tools(app: ASGIApp) -> None:
    tools: dict[str, object] = {"tools": [{"type": "function", "function": {"name": "get_weather"}}]}
    asked = tools | CHAT | {"thinking": {"type": "enabled"}, "return_token_strs": True}
    shown = (await post(app, "/tokenize", asked)).json()["token_strs"]
    assert "get_weather" in "".join(shown)
    assert (await post(app, "/tokenize", tools | {"prompt": "Hi"})).json()["error"]["param"] == "tools"
