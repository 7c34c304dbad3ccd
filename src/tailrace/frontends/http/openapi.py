"""The OpenAPI document of all routes, made from the structs that bodies are decoded into: it cannot say anything else.

Each route is there under the prefix that its clients use; the others lead to the same.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tailrace.frontends.fields import FieldRules
from tailrace.frontends.http.anthropic.fields import ANTHROPIC_FIELDS
from tailrace.frontends.http.anthropic.schema import CountBody, MessagesBody
from tailrace.frontends.http.openai.fields import OPENAI_FIELDS
from tailrace.frontends.http.openai.schema import (
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    ExplainBody,
    InvalidateBody,
    TokenizeBody,
)
from tailrace.frontends.http.responses.fields import RESPONSE_FIELDS
from tailrace.frontends.http.responses.schema import ResponseBody

__all__ = ["openapi_document"]

Json = dict[str, Any]
Key = Literal["none", "client", "anthropic", "admin"]

_REF = "#/components/schemas/{name}"
_SECURITY: Mapping[Key, list[Json]] = {
    "none": [],
    "client": [{"apiKey": []}],
    "anthropic": [{"apiKey": []}, {"anthropicKey": []}],
    "admin": [{"adminKey": []}],
}
_SCHEMES: Json = {
    "apiKey": {"type": "http", "scheme": "bearer", "description": "Only where the server has API keys."},
    "anthropicKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "adminKey": {"type": "http", "scheme": "bearer", "description": "The server's admin key."},
}
_REFUSALS = {
    "400": "The request is at fault; `param` names the field",
    "401": "No such key",
    "403": "The server has no admin key",
    "404": "No such model or stream",
    "408": "The body stopped coming",
    "409": "A profile is being taken",
    "410": "The stream is not kept any more",
    "413": "Too much at once",
    "415": "Not JSON in UTF-8",
    "429": "Not now: Retry-After says when",
    "503": "Loading, draining, or without its engine",
}
_ORDER = ("seconds", "process", "format", "native")
_PROFILES = ("image/svg+xml", "application/json", "text/plain")
_QUERY = ("prompt", "cache_salt", "user_id", "model")


@dataclass(frozen=True, slots=True)
class _Operation:
    """What one route takes and gives. `kinds` are content types of its answer."""

    method: Literal["get", "post"]
    path: str
    summary: str
    key: Key = "none"
    body: type[Struct] | None = None
    rules: FieldRules = OPENAI_FIELDS
    kinds: tuple[str, ...] = ("application/json",)
    query: tuple[str, ...] = ()


_EITHER = ("application/json", "text/event-stream")
_EXPOSITIONS = ("text/plain", "application/openmetrics-text")

_OPERATIONS = (
    _Operation("post", "/v1/chat/completions", "Answer a chat", "client", ChatBody, kinds=_EITHER),
    _Operation("post", "/v1/completions", "Continue a prompt", "client", CompletionBody, kinds=_EITHER),
    _Operation("post", "/v1/responses", "Answer, unstored", "client", ResponseBody, RESPONSE_FIELDS, _EITHER),
    _Operation("post", "/v1/messages", "Answer a chat", "anthropic", MessagesBody, ANTHROPIC_FIELDS, _EITHER),
    _Operation("post", "/v1/messages/count_tokens", "Count a prompt", "anthropic", CountBody, ANTHROPIC_FIELDS),
    _Operation("post", "/v1/embeddings", "Refused: text is generated here, nothing else", "client"),
    _Operation("get", "/v1/streams/{stream_id}", "Take a stream up again", "client", kinds=_EITHER[1:]),
    _Operation("get", "/v1/models", "The served model under all its names", "client"),
    _Operation("get", "/v1/models/{name}", "One of them", "client"),
    _Operation("post", "/tokenize", "Text or messages as token ids", "client", TokenizeBody),
    _Operation("post", "/detokenize", "Token ids as text", "client", DetokenizeBody),
    _Operation("get", "/cache/explain", "What is cached of a prompt, and why no more", "admin", query=_QUERY),
    _Operation("post", "/cache/explain", "The same, for longer prompts", "admin", ExplainBody),
    _Operation("post", "/cache/invalidate", "Forget one thing", "admin", InvalidateBody),
    _Operation("get", "/health", "Does it live?"),
    _Operation("get", "/livez", "As /health"),
    _Operation("get", "/ready", "Would a request be served now?"),
    _Operation("get", "/readyz", "As /ready"),
    _Operation("get", "/metrics", "Metrics in the formats of Prometheus", kinds=_EXPOSITIONS),
    _Operation("get", "/version", "Which build this is"),
    _Operation("get", "/debug/experts", "Tokens that each expert has computed"),
    _Operation("get", "/debug/rules", "Rules, which of them act, and since when; for the admin key, if there is one"),
    _Operation("get", "/debug/profile", "What a process does", "admin", kinds=_PROFILES, query=_ORDER),
    _Operation("get", "/openapi.json", "This document"),
)


def openapi_document(version: str) -> bytes:
    paths: dict[str, Json] = {}
    for operation in _OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Tailrace", "version": version},
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _SCHEMES},
    }
    return msgspec.json.encode(document)


def _described(operation: _Operation) -> Json:
    described: Json = {
        "summary": operation.summary,
        "operationId": operation.method + re.sub("[^a-z.]", "_", operation.path),
        "security": _SECURITY[operation.key],
        "parameters": list(_parameters(operation)),
        "responses": {"200": _answer("As asked", operation.kinds), **_refusals()},
    }
    if operation.body is not None:
        schema = {"$ref": _REF.format(name=operation.body.__name__)}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _parameters(operation: _Operation) -> Iterator[Json]:
    for name in re.findall(r"\{(\w+)\}", operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name in operation.query:
        yield {"name": name, "in": "query", "required": name == "prompt", "schema": {"type": "string"}}


def _answer(description: str, kinds: tuple[str, ...]) -> Json:
    return {"description": description, "content": {kind: {} for kind in kinds}}


def _refusals() -> Json:
    return {status: _answer(why, ("application/json",)) for status, why in _REFUSALS.items()}


def _schemas() -> Json:
    bodies = {operation.body: operation.rules for operation in _OPERATIONS if operation.body is not None}
    _, schemas = msgspec.json.schema_components(bodies, schema_hook=_anything, ref_template=_REF)
    for body, rules in bodies.items():
        _add_unused(schemas[body.__name__], rules)
    return schemas


def _anything(kind: type) -> Json:
    """What is not looked at yet when a body is decoded."""
    if kind is not object:
        raise NotImplementedError(kind)
    return {"description": "Looked at according to its type"}


def _add_unused(schema: Json, rules: FieldRules) -> None:
    """Fields that are taken and change nothing; whatever is in no list is refused."""
    properties = schema["properties"]
    for name, reason in rules.accepted.items():
        properties.setdefault(name, {"description": reason})
    for name, refusal in rules.refused.items():
        properties.setdefault(name, {"description": refusal.reason, "enum": [None, *refusal.neutral]})
    schema["additionalProperties"] = False
