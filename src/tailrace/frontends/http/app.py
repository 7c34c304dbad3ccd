"""The HTTP front end as an ASGI application: routes, and the one place where errors become answers."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.errors import InvalidRequest, Overloaded, UnavailableError
from tailrace.frontends.admin_key import AdminKey
from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.faults import log_fault
from tailrace.frontends.http.anthropic.count import CountTokens
from tailrace.frontends.http.anthropic.entrance import AnthropicEntrance, anthropic_key
from tailrace.frontends.http.anthropic.errors import ANTHROPIC_ERRORS
from tailrace.frontends.http.attribution import AttributionEndpoint
from tailrace.frontends.http.cache import CacheEndpoints
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.console.console import Console
from tailrace.frontends.http.cors import Cors
from tailrace.frontends.http.errors import ErrorShape, MethodNotAllowed, PathNotFound, failure_of
from tailrace.frontends.http.exchange import ClientGone, Exchange
from tailrace.frontends.http.generate import CHAT, COMPLETION, MESSAGE, RESPONSE, Generate
from tailrace.frontends.http.openai.errors import OPENAI_ERRORS
from tailrace.frontends.http.profile import ProfileEndpoint
from tailrace.frontends.http.rate_headers import rate_headers
from tailrace.frontends.http.resume.streams import ResumableStreams
from tailrace.frontends.http.rules import RuleEndpoint
from tailrace.frontends.http.status import OneProcess, StatusEndpoints, WholeServer
from tailrace.frontends.http.tokens import TokenEndpoints
from tailrace.frontends.rate_gate import RateGate, Visit
from tailrace.service.api import Service
from tailrace.telemetry.http import HttpMetrics
from tailrace.telemetry.log_context import LogContext, log_context
from tailrace.telemetry.profile import Profiler
from tailrace.telemetry.prometheus import Metrics

__all__ = ["create_app"]

_log = logging.getLogger(__name__)

_PREFIXES = ("", "/v1", "/beta")  # clients are configured with either
_ANTHROPIC_PREFIXES = (*_PREFIXES, "/anthropic", "/anthropic/v1")
_EXCHANGE = "tailrace.exchange"
_CLIENT_GONE = 499  # counted, never sent
_LAST_WORDS_S = 0.5
_MOMENT_S = 1.0

Handler = Callable[[Exchange], Awaitable[None]]
_Handled = tuple[str, str, Handler]  # method and path, and what answers there


def create_app(
    service: Service,
    metrics: Metrics,
    config: HttpConfig,
    server: WholeServer | None = None,
    streams: ResumableStreams | None = None,
    *,
    console: Console | None = None,
    profiler: Profiler | None = None,
    attribution: AttributionEndpoint | None = None,
) -> ASGIApp:
    """The application for any ASGI server. It holds no state besides its arguments.

    `server` is what this process is a part of; without it, it is alone. Without `streams`, none can be taken up again.
    `profiler` knows the processes that one may look into.
    """
    server = server or OneProcess(metrics)
    status = StatusEndpoints(service, server, config)
    rules = RuleEndpoint(server, config)
    handlers = (
        *_for_clients(service, metrics, config, status, streams),
        *_for_operators(service, config, status, rules),
    )
    messages = _for_anthropic_clients(service, metrics, config)
    routes = [*_routes(_PREFIXES, handlers), *_routes(_ANTHROPIC_PREFIXES, messages, ANTHROPIC_ERRORS)]
    if attribution is not None:
        routes += _routes(_PREFIXES, [("GET", "/debug/attribution", attribution)])
    if console is not None:
        routes += _routes(("",), _for_lookers_on(console, config))
    if profiler is not None:
        profile = ProfileEndpoint(profiler, AdminKey(config.admin_key), config)
        routes += _routes(_PREFIXES, [("GET", "/debug/profile", profile.profile)])
    return _HttpApp(Router(routes, redirect_slashes=False, default=_no_route), metrics.http, config.cors)


def _routes(
    prefixes: Sequence[str], handlers: Sequence[_Handled], errors: ErrorShape = OPENAI_ERRORS
) -> Iterator[Route]:
    for prefix in prefixes:
        for method, path, handler in handlers:
            yield Route(prefix + path, _Endpoint(handler, errors), methods=[method], name=path)


def _for_clients(
    service: Service,
    metrics: Metrics,
    config: HttpConfig,
    status: StatusEndpoints,
    streams: ResumableStreams | None,
) -> Iterator[_Handled]:
    """What needs an API key, where there are any."""
    tokens = TokenEndpoints(service, config)
    handlers: list[_Handled] = [
        ("POST", "/chat/completions", Generate(service, metrics.http, config, CHAT, streams)),
        ("POST", "/completions", Generate(service, metrics.http, config, COMPLETION, streams)),
        ("POST", "/responses", Generate(service, metrics.http, config, RESPONSE)),
        ("POST", "/embeddings", _no_embeddings),
        ("GET", "/models", status.models),
        ("GET", "/models/{name:path}", status.model),
        ("POST", "/tokenize", tokens.tokenize),
        ("POST", "/detokenize", tokens.detokenize),
    ]
    for method, path, handler in handlers:
        gate = config.gate if method == "POST" else None
        yield method, path, _Keyed(config.api_keys, gate, handler)
    if streams is not None:
        yield "GET", "/streams/{stream_id}", _Keyed(config.api_keys, config.gate, streams.resume)


async def _no_embeddings(exchange: Exchange) -> None:
    raise InvalidRequest(
        "this server generates text only and has no embeddings; ask a server of an embedding model",
        code="unsupported_endpoint",
    )


def _for_anthropic_clients(service: Service, metrics: Metrics, config: HttpConfig) -> list[_Handled]:
    """As `_for_clients`, for those who speak the other API."""
    message = Generate(service, metrics.http, config, MESSAGE)
    handlers: list[_Handled] = [
        ("POST", "/messages", message),
        ("POST", "/messages/count_tokens", CountTokens(service, config)),
    ]
    keyed = partial(_Keyed, config.api_keys, config.gate, key_of=anthropic_key, key_place="'x-api-key: KEY'")
    return [(method, path, AnthropicEntrance(keyed(handler))) for method, path, handler in handlers]


def _for_operators(
    service: Service, config: HttpConfig, status: StatusEndpoints, rules: RuleEndpoint
) -> list[_Handled]:
    """What machines ask of each other, and what has a key of its own."""
    cache = CacheEndpoints(service, AdminKey(config.admin_key), config)
    return [
        ("GET", "/cache/explain", cache.explain_query),
        ("POST", "/cache/explain", cache.explain_body),
        ("POST", "/cache/invalidate", cache.invalidate),
        ("GET", "/health", status.health),
        ("GET", "/livez", status.health),
        ("GET", "/ready", status.ready),
        ("GET", "/readyz", status.ready),
        ("GET", "/metrics", status.metrics),
        ("GET", "/version", status.version),
        ("GET", "/debug/experts", status.experts),
        ("GET", "/debug/rules", rules),
        ("GET", "/openapi.json", status.openapi),
    ]


def _for_lookers_on(console: Console, config: HttpConfig) -> list[_Handled]:
    """The page for everybody, what it shows for who has an API key, where there are any."""
    return [
        ("GET", "/", console.index),
        ("GET", "/console/static/{path:path}", console.file),
        ("GET", "/console/feed", _Keyed(config.api_keys, None, console.feed)),
        ("GET", "/console/requests/{request_id:path}", _Keyed(config.api_keys, None, console.request)),
    ]


def _bearer_token(exchange: Exchange) -> bytes | None:
    return exchange.bearer_token


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A handler for those who have a key, if keys are asked for. Nothing is read of a request without one.

    What costs something is for those who have not used up their limits: `gate` is None for what does not.
    """

    keys: ApiKeys
    gate: RateGate | None
    handler: Handler
    key_of: Callable[[Exchange], bytes | None] = _bearer_token
    key_place: str = "'Authorization: Bearer KEY'"

    async def __call__(self, exchange: Exchange) -> None:
        client = exchange.client = self.keys.admit(self.key_of(exchange), f"it as {self.key_place}")
        if self.gate is None:
            await self.handler(exchange)
            return
        with self.gate.visiting(client, partial(_note_visit, exchange)):
            await self.handler(exchange)


def _note_visit(exchange: Exchange, visit: Visit) -> None:
    exchange.visit = visit
    exchange.more_headers += rate_headers(visit)
    if visit.refusal is not None:
        exchange.service_class = exchange.client.class_name or None


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A handler as the ASGI application that a route wants, and the words of its errors."""

    handler: Handler
    errors: ErrorShape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[_EXCHANGE]
        exchange.error_shape = self.errors
        exchange.path_params = scope["path_params"]
        await self.handler(exchange)


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    raise PathNotFound(f"there is nothing at {scope['path'][:128]}")


class _HttpApp:
    def __init__(self, router: Router, metrics: HttpMetrics, cors: Cors) -> None:
        self._router = router
        self._metrics = metrics
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        log_context.set(LogContext(exchange.request_id))
        scope[_EXCHANGE] = exchange
        scope["app"] = self  # makes the router raise for a wrong method instead of answering in its own shape
        self._metrics.request_started()
        try:
            await self._serve(exchange, scope, receive, send)
        finally:
            self._metrics.request_ended(_route_name(scope), exchange.status or _CLIENT_GONE)

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        exchange.more_headers += self._cors.headers(exchange.headers)
        try:
            if (allowed := self._cors.preflight(scope["method"], exchange.headers)) is not None:
                await exchange.respond(204, b"", allowed)
            else:
                await self._router(scope, receive, send)
        except ClientGone:
            self._metrics.client_gone(exchange.phase)
            exchange.status = _CLIENT_GONE
        except HTTPException as error:
            if isinstance(endpoint := scope.get("endpoint"), _Endpoint):  # whose method it is not
                exchange.error_shape = endpoint.errors
            methods = (error.headers or {}).get("Allow", "")
            await _refuse(exchange, MethodNotAllowed(f"this path takes {methods}", allowed=methods))
        except asyncio.CancelledError:  # the server ends, and its patience has
            await _say_last_words(exchange)
        except Exception as error:
            if isinstance(error, Overloaded) and exchange.service_class is not None:
                self._metrics.answers.refuse(exchange.service_class, error.reason)
            await _refuse(exchange, error)


async def _say_last_words(exchange: Exchange) -> None:
    """Tells the client that the server ends, if the client still reads."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS_S):
            message = "the server is shutting down; send the request again"
            await _refuse(exchange, UnavailableError(message, retry_after_s=_MOMENT_S))


async def _refuse(exchange: Exchange, error: Exception) -> None:
    """Tells the client of an error: by the status, or as an event when its stream has begun."""
    failure = failure_of(error, exchange.request_id)
    if failure.is_ours:
        log_fault(_log, exchange.request_id, error)
    if exchange.status is None:
        shape = exchange.error_shape
        await exchange.respond(shape.status(failure), shape.encode(failure), failure.headers)
    elif exchange.failure_frames is not None and not exchange.is_complete:
        await exchange.write(exchange.failure_frames(failure))
        await exchange.end_stream()


def _route_name(scope: Scope) -> str:
    route = scope.get("route")
    return route.name if isinstance(route, Route) else "none"
