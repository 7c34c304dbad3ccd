"""Follows an exchange: what the head and the status of its answer say is part of its life."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.frontends.client_gone import ClientGone
from tailrace.frontends.following import following, note_trace
from tailrace.frontends.http.errors import failure_of
from tailrace.frontends.http.exchange import Exchange
from tailrace.telemetry.lives import LifeLog, RequestLife

__all__ = ["followed"]

_CLIENT_GONE = 499  # noted, never sent


@contextmanager
def followed(exchange: Exchange, lives: LifeLog, life: RequestLife) -> Iterator[None]:
    """Within this it is answered. What is raised will be its answer, if that has not begun."""
    note_trace(life, exchange.trace)
    with following(lives, life):
        try:
            yield
        except BaseException as error:
            life.status = exchange.status or _status_of(error, exchange)
            raise
        life.status = exchange.status


def _status_of(error: BaseException, exchange: Exchange) -> int | None:
    """What its client will be told; None: nobody knows that here."""
    if isinstance(error, ClientGone):
        return _CLIENT_GONE
    if isinstance(error, asyncio.CancelledError) or not isinstance(error, Exception):
        return None
    return exchange.error_shape.status(failure_of(error, exchange.request_id))
