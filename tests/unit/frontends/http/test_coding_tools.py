"""Requests as coding tools send them, with all that they send besides the text: they are answered."""

import pytest
from starlette.types import ASGIApp

from tests.support.asgi import named_events, post
from tests.support.scripted_service import ScriptedService

READ = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"file_path": {"type": "string", "description": "The file."}},
    "required": ["file_path"],
    "additionalProperties": False,
}
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
        {"role": "user", "content": [{"type": "text", "text": "What is a weir?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I read the file.", "signature": "unsigned"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a"}},
                {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"file_path": "/b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "A dam."}]},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": "No such file.",
                    "is_error": True,
                    **CACHED,
                },
            ],
        },
    ],
    "tools": [{"name": "Read", "description": "Reads a file.", "input_schema": READ}],
    "thinking": {"type": "enabled", "budget_tokens": 31_999},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
}

OF_RESPONSES: dict[str, object] = {
    "model": "tiny",
    "instructions": "You are a coding tool.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Ask before you write."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is a weir?"}]},
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "I read the file."}],
            "encrypted_content": None,
        },
        {"type": "function_call", "name": "shell", "arguments": '{"command":["cat","a"]}', "call_id": "call_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "A dam."},
    ],
    "tools": [{"type": "function", "name": "shell", "description": "Runs.", "strict": False, "parameters": READ}],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
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
    assert "I read the file." in prompt
    assert "A dam." in prompt
