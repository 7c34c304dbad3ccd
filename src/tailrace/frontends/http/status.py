"""The endpoints that operators and balancers ask: is it alive, is it ready, what is it, how is it doing."""

import msgspec

from tailrace.errors import UnavailableError
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.openai.request import check_model
from tailrace.service.api import ModelCard, Service
from tailrace.telemetry.prometheus import Metrics

__all__ = ["StatusEndpoints"]


class StatusEndpoints:
    def __init__(self, service: Service, metrics: Metrics, config: HttpConfig) -> None:
        self._service = service
        self._metrics = metrics
        self._config = config

    async def health(self, exchange: Exchange) -> None:
        """Live: the event loop answers."""
        await exchange.respond_json(b'{"status":"ok"}')

    async def ready(self, exchange: Exchange) -> None:
        """Ready: a request sent now would be served."""
        if not self._service.is_ready:
            raise UnavailableError("the model is loading, or the server is draining")
        await exchange.respond_json(b'{"status":"ready"}')

    async def version(self, exchange: Exchange) -> None:
        await exchange.respond_json(msgspec.json.encode({"version": self._config.version}))

    async def metrics(self, exchange: Exchange) -> None:
        accept = exchange.headers.get(b"accept", b"").decode("latin-1")
        body, content_type = self._metrics.render(accept)
        await exchange.respond(200, body, content_type=content_type)

    async def experts(self, exchange: Exchange) -> None:
        """The tokens that each expert of each mixture has computed since the model was loaded."""
        counts = self._metrics.experts.counts()
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
