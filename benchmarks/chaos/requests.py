"""Requests whose answers are the same each time, and how a client asks for them and reads what comes."""

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["REQUESTS", "Answer", "Asked", "Cut", "Refused", "ask"]

_TIMEOUT_S = 120.0
_LONG_PROMPT = "The history of the water mill, told from the very beginning. " * 24

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("/v1/completions", {"prompt": "Go on:", "max_tokens": 48, "temperature": 0}),
    "seeded": ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 64, "temperature": 0.9, "seed": 5}),
    "choices": ("/v1/completions", {"prompt": "A list:", "max_tokens": 24, "temperature": 0.8, "seed": 6, "n": 3}),
    "logprobs": ("/v1/completions", {"prompt": "The sea", "max_tokens": 24, "temperature": 0, "logprobs": 2}),
    "penalties": (
        "/v1/completions",
        {"prompt": "A list:", "max_tokens": 40, "temperature": 0, "frequency_penalty": 0.6, "repetition_penalty": 1.1},
    ),
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Tell me of rivers."}], "max_tokens": 40, "temperature": 0},
    ),
    "stop": (
        "/v1/completions",
        {"prompt": "Count: one, two,", "max_tokens": 60, "temperature": 0, "stop": ["\n", "."]},
    ),
    "long prompt": ("/v1/completions", {"prompt": _LONG_PROMPT, "max_tokens": 24, "temperature": 0}),
}
"""By name: path and body."""


class Cut(Exception):
    """The connection ended before the answer did."""


class Refused(Exception):
    """The server said that it cannot serve this now."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One of the requests, and how it is to be answered."""

    name: str
    is_streamed: bool

    @property
    def path(self) -> str:
        return REQUESTS[self.name][0]

    @property
    def body(self) -> bytes:
        options = {"stream": True, "stream_options": {"include_usage": True}} if self.is_streamed else {}
        return json.dumps({**REQUESTS[self.name][1], **options}).encode()


@dataclass(slots=True)
class Answer:
    """What a client has in the end, however it came."""

    texts: dict[int, str] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    num_logprobs: int = 0
    num_tokens: tuple[int, int] | None = None  # of the prompt, of the answer

    def add(self, message: dict[str, Any]) -> None:
        """A chunk, or a whole answer."""
        if "error" in message:
            raise Refused(message["error"]["message"])
        for choice in message["choices"]:
            said = choice.get("delta") or choice.get("message") or choice
            text = said.get("text") or said.get("content") or ""
            self.texts[choice["index"]] = self.texts.get(choice["index"], "") + text
            if choice["finish_reason"] is not None:
                self.reasons[choice["index"]] = choice["finish_reason"]
            self.num_logprobs += len((choice.get("logprobs") or {}).get("token_logprobs", ()))
        if (usage := message.get("usage")) is not None:
            self.num_tokens = usage["prompt_tokens"], usage["completion_tokens"]


def ask(port: int, asked: Asked, on_chunk: Callable[[int], bool] = lambda count: True) -> Answer:
    """The answer; as far as it had come when `on_chunk`, called with the number of chunks so far, returns False.

    Raises Cut and Refused.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", asked.path, asked.body, {"content-type": "application/json"})
        return _read(connection.getresponse(), asked, on_chunk)
    except (ConnectionError, http.client.HTTPException) as error:
        raise Cut(repr(error)) from None
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, asked: Asked, on_chunk: Callable[[int], bool]) -> Answer:
    answer = Answer()
    if not asked.is_streamed or response.status != 200:
        answer.add(json.loads(response.read()))
        return answer
    count = 0
    for line in response:
        if line.startswith(b"data: [DONE]"):
            return answer
        if line.startswith(b"data: "):
            answer.add(json.loads(line[6:]))
            count += 1
            if not on_chunk(count):
                return answer
    raise Cut("the stream ended without its end mark")
