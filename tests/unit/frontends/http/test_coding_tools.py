"""Requests as coding tools send them, with all that they send besides the text: they are answered."""

import pytest
from starlette.types import ASGIApp

from tests.support.asgi import named_events, post
from tests.support.scripted_service import ScriptedService

CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}

OF_MESSAGES: dict[str, object] = {
    "model": "tiny",
    "max_tokens": 32_000,
    "temperature": 1,
    "stream": True,
    "system": [
        {"type": "text", "text": "You are a coding tool."},
        {"type": "text", "text": "Be brief.", **CACHED},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<reminder>A file was opened.</reminder>"}]},
        {"role": "user", "content": [{"type": "text", "text": "What is a weir?", **CACHED}]},
    ],
    "tools": [],
    "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
}

OF_RESPONSES: dict[str, object] = {
    "model": "tiny",
    "instructions": "You are a coding tool.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Ask before you write."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is a weir?"}]},
    ],
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": None,
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "service_tier": None,
    "prompt_cache_key": "0199a213-81c0-7800-8aa1-bbab2a035a53",
    "text": {"verbosity": "medium"},
    "client_metadata": {"installation": "i"},
}


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/messages?beta=true", OF_MESSAGES, "message_stop"),
        ("/v1/responses", OF_RESPONSES, "response.completed"),
    ],
)
async def test_their_requests_are_answered(
    app: ASGIApp, service: ScriptedService, path: str, body: dict[str, object], last: str
) -> None:
    answer = await post(app, path, body, anthropic_beta="interleaved-thinking-2025-05-14", user_agent="tool/1.0")
    assert answer.status == 200
    assert named_events(answer.body)[-1][0] == last
    prompt = str(service.generation.prompt)
    assert "You are a coding tool." in prompt
    assert "What is a weir?" in prompt
