"""The HTTP front end as an ASGI application: routes, and the one place where errors become answers."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from tailrace.errors import UnavailableError
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import ClientGone, Exchange
from tailrace.frontends.http.generate import CHAT, COMPLETION, Generate
from tailrace.frontends.http.openai.errors import MethodNotAllowed, PathNotFound, failure_of
from tailrace.frontends.http.status import StatusEndpoints
from tailrace.frontends.http.tokens import TokenEndpoints
from tailrace.service.api import Service
from tailrace.telemetry.http import HttpMetrics
from tailrace.telemetry.prometheus import Metrics

__all__ = ["create_app"]

_log = logging.getLogger(__name__)

_PREFIXES = ("", "/v1", "/beta")  # clients are configured with either
_EXCHANGE = "tailrace.exchange"
_CLIENT_GONE = 499  # counted, never sent
_LAST_WORDS_S = 0.5

Handler = Callable[[Exchange], Awaitable[None]]


def create_app(service: Service, metrics: Metrics, config: HttpConfig) -> ASGIApp:
    """The application for any ASGI server. It holds no state besides its arguments."""
    status = StatusEndpoints(service, metrics, config)
    tokens = TokenEndpoints(service, config)
    handlers: list[tuple[str, str, Handler]] = [
        ("POST", "/chat/completions", Generate(service, metrics.http, config, CHAT)),
        ("POST", "/completions", Generate(service, metrics.http, config, COMPLETION)),
        ("GET", "/models", status.models),
        ("GET", "/models/{name:path}", status.model),
        ("POST", "/tokenize", tokens.tokenize),
        ("POST", "/detokenize", tokens.detokenize),
        ("GET", "/health", status.health),
        ("GET", "/livez", status.health),
        ("GET", "/ready", status.ready),
        ("GET", "/readyz", status.ready),
        ("GET", "/metrics", status.metrics),
        ("GET", "/version", status.version),
        ("GET", "/debug/experts", status.experts),
    ]
    routes = [
        Route(prefix + path, _Endpoint(handler), methods=[method], name=path)
        for prefix in _PREFIXES
        for method, path, handler in handlers
    ]
    return _HttpApp(Router(routes, redirect_slashes=False, default=_no_route), metrics.http)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A handler as the ASGI application that a route wants."""

    handler: Handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[_EXCHANGE]
        exchange.path_params = scope["path_params"]
        await self.handler(exchange)


async def _no_route(scope: Scope, receive: Receive, send: Send) -> None:
    raise PathNotFound(f"there is nothing at {scope['path'][:128]}")


class _HttpApp:
    def __init__(self, router: Router, metrics: HttpMetrics) -> None:
        self._router = router
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        scope[_EXCHANGE] = exchange
        scope["app"] = self  # makes the router raise for a wrong method instead of answering in its own shape
        self._metrics.request_started()
        try:
            await self._serve(exchange, scope, receive, send)
        finally:
            self._metrics.request_ended(_route_name(scope), exchange.status or _CLIENT_GONE)

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._router(scope, receive, send)
        except ClientGone:
            self._metrics.client_gone(exchange.phase)
            exchange.status = _CLIENT_GONE
        except HTTPException as error:
            allowed = (error.headers or {}).get("Allow", "")
            await _refuse(exchange, MethodNotAllowed(f"this path takes {allowed}", allowed=allowed))
        except asyncio.CancelledError:  # the server ends, and its patience has
            await _say_last_words(exchange)
        except Exception as error:
            await _refuse(exchange, error)


async def _say_last_words(exchange: Exchange) -> None:
    """Tells the client that the server ends, if the client still reads."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS_S):
            await _refuse(exchange, UnavailableError("the server is shutting down; send the request again"))


async def _refuse(exchange: Exchange, error: Exception) -> None:
    """Tells the client of an error: by the status, or as an event when its stream has begun."""
    failure = failure_of(error, exchange.request_id)
    if failure.is_ours:
        _log.error("request %s failed", exchange.request_id, exc_info=error)
    if exchange.status is None:
        await exchange.respond(failure.status, failure.encode(), failure.headers)
    elif exchange.is_stream and not exchange.is_complete:
        await exchange.write(b"data: " + failure.encode() + b"\n\n")
        await exchange.end_stream()


def _route_name(scope: Scope) -> str:
    route = scope.get("route")
    return route.name if isinstance(route, Route) else "none"
