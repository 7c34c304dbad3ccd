"""One prompt of token ids to our server, timed to its first token, with what of it came from which level."""

import http.client
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Answer", "ask", "random_prompt"]

_TIMEOUT_S = 600.0
_FIRST_ID, _LAST_ID = 1_000, 40_000  # words of the default model, no markup


@dataclass(frozen=True, slots=True)
class Answer:
    first_token_s: float
    num_prompt_tokens: int
    found: dict[str, int]  # tokens by level

    @property
    def num_found(self) -> int:
        return sum(self.found.values())


def random_prompt(draw: random.Random, num_tokens: int) -> list[int]:
    return [draw.randint(_FIRST_ID, _LAST_ID) for _ in range(num_tokens)]


def ask(url: str, token_ids: Sequence[int], cache_salt: str | None = None) -> Answer:
    """Raises ConnectionError for an answer that is none."""
    body = {
        "prompt": list(token_ids),
        "max_tokens": 2,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({} if cache_salt is None else {"cache_salt": cache_salt}),
    }
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_TIMEOUT_S)
    try:
        connection.connect()
        encoded = json.dumps(body)
        sent_s = time.perf_counter()
        connection.request("POST", "/v1/completions", encoded, {"content-type": "application/json"})
        reply = connection.getresponse()
        first = reply.readline()
        first_token_s = time.perf_counter() - sent_s
        if reply.status != 200 or not first.startswith(b"data:"):
            raise ConnectionError(f"{url} answered {reply.status}: {first[:200]!r}")
        return _answer(first_token_s, reply.read())
    finally:
        connection.close()


def _answer(first_token_s: float, rest: bytes) -> Answer:
    chunks = [line[5:].strip() for line in rest.splitlines() if line.startswith(b"data:")]
    usage = next(used for chunk in reversed(chunks) if chunk != b"[DONE]" and (used := json.loads(chunk).get("usage")))
    found: dict[str, int] = usage["prompt_tokens_details"]["cached_tokens_details"]
    return Answer(first_token_s, usage["prompt_tokens"], found)
