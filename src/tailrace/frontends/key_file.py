"""API keys as lines of a file, a client each.

{"name": "shop", "key": "sk-0123456789abcdef", "class": "gold"}
{"name": "nightly", "key": "sk-fedcba9876543210", "class": "bronze", "best": "silver", "tokens_per_minute": 100000}
"""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from tailrace.classes import ServiceClasses
from tailrace.errors import SetupError
from tailrace.frontends.json_lines import decode_lines
from tailrace.frontends.rate_table import MAX_HERE
from tailrace.frontends.standing import Client, ClientLimits

__all__ = ["read_clients"]

MAX_FILE_BYTES = 16 << 20
_SECRET = "it must be 16 to 512 visible ASCII characters without spaces: make one with 'openssl rand -hex 24'"

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")]  # no slash: see `standing`
Rate = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class _Line(Struct, forbid_unknown_fields=True):
    name: Name
    key: str
    class_name: str | None = field(name="class", default=None)
    best: str | None = None
    max_requests: Annotated[int, Meta(ge=1, le=MAX_HERE)] | None = None
    requests_per_minute: Rate | None = None
    tokens_per_minute: Rate | None = None


def read_clients(path: Path, classes: ServiceClasses) -> dict[str, Client]:
    """Clients by their keys. Without "class", a client is of the default one; without "best", it gets no better class.

    Raises SetupError with the line and the field, and never with a key.
    """
    clients: dict[str, Client] = {}
    names: set[str] = set()
    for place, line in decode_lines(path, _Line, max_bytes=MAX_FILE_BYTES):
        if not (16 <= len(line.key) <= 512 and line.key.isascii() and line.key.isprintable() and " " not in line.key):
            raise SetupError(f"{place}: the key of {line.name!r} is unfit: {_SECRET}")
        if line.name in names:
            raise SetupError(f"{place}: the name {line.name!r} is there twice")
        if line.key in clients:
            raise SetupError(f"{place}: {line.name!r} has the key of {clients[line.key].name!r}: give each its own")
        names.add(line.name)
        clients[line.key] = _client(line, classes, place)
    if not clients:
        raise SetupError(f"{path} lists no key, so that nobody could use the server")
    return clients


def _client(line: _Line, classes: ServiceClasses, place: str) -> Client:
    own = _class_name(line.class_name, "class", classes, place) or classes.default_name
    best = _class_name(line.best, "best", classes, place) or own
    order = [each.name for each in classes]
    if order.index(best) > order.index(own):
        raise SetupError(
            f"{place}: best is {best!r}, but the class {own!r} of {line.name!r} is better: give that or more"
        )
    limits = ClientLimits(line.max_requests, line.requests_per_minute, line.tokens_per_minute)
    return Client(line.name, own, best, limits)


def _class_name(name: str | None, param: str, classes: ServiceClasses, place: str) -> str | None:
    if name is not None and name not in classes:
        known = ", ".join(each.name for each in classes)
        raise SetupError(f"{place}: {param} must be one of {known}, not {name[:64]!r}")
    return name
