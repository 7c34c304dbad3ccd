"""The endpoint of operators that says what a process of the server is doing, as a flame graph."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from tailrace.errors import InvalidRequest, RequestError, SetupError, UnavailableError
from tailrace.frontends.admin_key import AdminKey
from tailrace.frontends.complaint import invalid_value
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.exchange import Exchange
from tailrace.telemetry.profile import ProfileFormat, ProfileOrder, Profiler, TurnTaken

__all__ = ["ProfileEndpoint", "ProfileQuery", "ProfileRunning"]

_CONTENT_TYPES: dict[ProfileFormat, str] = {
    "svg": "image/svg+xml",
    "speedscope": "application/json",
    "collapsed": "text/plain; charset=utf-8",
}


class ProfileRunning(RequestError):
    status = 409
    code = "profile_running"


class ProfileQuery(Struct, forbid_unknown_fields=True):
    seconds: Annotated[int, Meta(ge=1, le=60)] = 10
    process: str = "engine"
    format: ProfileFormat = "svg"
    native: bool = True


class ProfileEndpoint:
    """It needs the admin key: stacks tell of the machine, and looking costs those who are served."""

    def __init__(self, profiler: Profiler, key: AdminKey, config: HttpConfig) -> None:
        self._profiler = profiler
        self._key = key
        self._config = config

    async def profile(self, exchange: Exchange) -> None:
        self._key.check(exchange)
        order = self._order(exchange.read_query(self._config.max_query_bytes))
        if exchange.is_bodiless:  # nobody would see the picture
            await exchange.respond(200, b"", content_type=_CONTENT_TYPES[order.format])
            return
        try:
            profile = await exchange.unless_gone(self._profiler.take(order))
        except TurnTaken:
            raise ProfileRunning("a profile is being taken, and there is one at a time: ask again later") from None
        except SetupError as error:
            raise UnavailableError(str(error)) from None
        await exchange.respond(200, profile, content_type=_CONTENT_TYPES[order.format])

    def _order(self, query: dict[str, str]) -> ProfileOrder:
        try:
            fields = msgspec.convert(query, ProfileQuery, strict=False)
        except msgspec.ValidationError as error:
            raise invalid_value(str(error)) from None
        names = self._profiler.names()
        if fields.process not in names:
            there = ", ".join(names) or "none that the system tells of"
            raise InvalidRequest(f"there is no process {fields.process[:64]!r}; there are: {there}", param="process")
        return ProfileOrder(fields.process, fields.seconds, fields.format, fields.native)
