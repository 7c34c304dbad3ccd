"""The endpoints that operators and balancers ask: is it alive, is it ready, what is it, how is it doing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tailrace.errors import UnavailableError, heeded_s
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.openapi import openapi_document
from tailrace.frontends.model_name import check_model
from tailrace.service.api import ModelCard, Service
from tailrace.telemetry.feed.process import ProcessView
from tailrace.telemetry.prometheus import Metrics

__all__ = ["OneProcess", "StatusEndpoints", "WholeServer"]


class WholeServer(Protocol):
    """What can be said of all processes of the server together."""

    @property
    def fails_for_s(self) -> float | None:
        """For how long it will serve nobody yet, by a fault of its own; None: there is none."""
        ...

    async def gather(self) -> Metrics:
        """What is counted in all of them."""
        ...

    async def views(self) -> Sequence[ProcessView]:
        """What each of them has to show besides."""
        ...


@dataclass(frozen=True, slots=True)
class OneProcess:
    """A server that is this process alone."""

    metrics: Metrics
    fails_for_s: float | None = None

    async def gather(self) -> Metrics:
        return self.metrics

    async def views(self) -> Sequence[ProcessView]:
        return [self.metrics.feed.view()]


class StatusEndpoints:
    def __init__(self, service: Service, server: WholeServer, config: HttpConfig) -> None:
        self._service = service
        self._server = server
        self._config = config
        self._openapi = openapi_document(config.version)

    async def health(self, exchange: Exchange) -> None:
        """Live: the event loop answers, and no fault keeps the engine from being there."""
        self._check_server()
        await exchange.respond_json(b'{"status":"ok"}')

    async def ready(self, exchange: Exchange) -> None:
        """Ready: a request sent now would be served."""
        self._check_server()
        if not self._service.is_ready:
            raise UnavailableError("the model is loading, or the server is draining")
        await exchange.respond_json(b'{"status":"ready"}')

    def _check_server(self) -> None:
        if (fails_for_s := self._server.fails_for_s) is not None:
            message = "the engine died again and again, and is left alone for a while"
            raise UnavailableError(message, retry_after_s=heeded_s(fails_for_s))

    async def version(self, exchange: Exchange) -> None:
        await exchange.respond_json(msgspec.json.encode({"version": self._config.version}))

    async def openapi(self, exchange: Exchange) -> None:
        await exchange.respond_json(self._openapi)

    async def metrics(self, exchange: Exchange) -> None:
        accept = exchange.headers.get(b"accept", b"").decode("latin-1")
        body, content_type = (await self._server.gather()).render(accept)
        await exchange.respond(200, body, content_type=content_type)

    async def experts(self, exchange: Exchange) -> None:
        """The tokens that each expert of each mixture has computed since the model was loaded."""
        counts = (await self._server.gather()).experts.counts()
        layers = [{"layer": layer, "tokens": list(tokens)} for layer, tokens in counts.items()]
        await exchange.respond_json(msgspec.json.encode({"layers": layers}))

    async def models(self, exchange: Exchange) -> None:
        model = self._service.model
        entries = [_entry(name, model) for name in (model.name, *model.aliases)]
        await exchange.respond_json(msgspec.json.encode({"object": "list", "data": entries}))

    async def model(self, exchange: Exchange) -> None:
        name = exchange.path_params["name"]
        check_model(name, self._service.model)
        await exchange.respond_json(msgspec.json.encode(_entry(name, self._service.model)))


def _entry(name: str, model: ModelCard) -> dict[str, str | int]:
    return {
        "id": name,
        "object": "model",
        "created": model.created_s,
        "owned_by": "tailrace",
        "root": model.name,
        "max_model_len": model.max_model_tokens,
    }
