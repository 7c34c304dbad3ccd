"""The endpoint of operators for attribution: where the server's time went, as sums of which two make figures."""

import time
from collections.abc import Callable

import msgspec

from tailrace.frontends.admin_key import AdminKey
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.status import WholeServer
from tailrace.telemetry.attribution_reading import ServedOn, read_attribution
from tailrace.telemetry.readings import Reading

__all__ = ["AttributionEndpoint"]


class AttributionEndpoint:
    """For who has the admin key; where there is none, for anybody, as the metrics are. Nothing is measured for it."""

    def __init__(self, server: WholeServer, admin_key: str | None, served: Callable[[], ServedOn]) -> None:
        self._server = server
        self._key = None if admin_key is None else AdminKey(admin_key)
        self._served = served

    async def __call__(self, exchange: Exchange) -> None:
        if self._key is not None:
            self._key.check(exchange)
        whole = await self._server.gather()
        reading = read_attribution(Reading(time.monotonic(), whole.samples()), self._served())
        await exchange.respond_json(msgspec.json.encode(reading))
