"""The endpoint of operators for rules: which there are, which of them act, and since when."""

import math
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tailrace.frontends.admin_key import AdminKey
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.status import WholeServer
from tailrace.records import RuleReport

__all__ = ["RuleEndpoint"]


class RuleEndpoint:
    """For who has the admin key; where there is none, for anybody, as the metrics are."""

    def __init__(self, server: WholeServer, config: HttpConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._key = None if config.admin_key is None else AdminKey(config.admin_key)
        self._clock = clock

    async def __call__(self, exchange: Exchange) -> None:
        if self._key is not None:
            self._key.check(exchange)
        reports = (await self._server.gather()).rules.latest()
        rules = [_shown(report, self._clock()) for report in reports]
        await exchange.respond_json(msgspec.json.encode({"rules": rules}))


def _shown(report: RuleReport, now_s: float) -> dict[str, Any]:
    signal = report.signal
    return {
        "name": report.name,
        "when": report.says,
        "action": f"{report.action} {report.target}".strip(),
        "state": report.state,
        "since_s": round(max(now_s - report.since_s, 0.0), 3),
        "signal": None if signal is None or not math.isfinite(signal) else signal,
        "is_enough_to_judge": report.counts,
        "clear_at": report.clear_at,
        "clear_for_s": report.clear_for_s,
    }
