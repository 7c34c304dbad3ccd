"""One connection to a Redis or Valkey server: batches of commands, and their replies within a time and a size.

The only place that knows redis-py and hiredis. The URL may hold a password, so nothing of it but the address, and
nothing of what the server says, goes into a message.
"""

import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

import hiredis  # noqa: F401 - redis-py can do without, the bounded parser cannot: let it be missed at once
from redis import exceptions
from redis._parsers import _HiredisParser  # the one place from which reading can be bounded as a whole
from redis.backoff import NoBackoff
from redis.connection import Connection, parse_url
from redis.retry import Retry

from tailrace.errors import SetupError
from tailrace.levels.api import LevelFailure, Unreachable

__all__ = ["Command", "Reply", "Wire"]

Command = tuple[bytes | str | int, ...]
Reply = object  # bytes, int, None, or a list of them: whoever asked checks, for servers may lie

_READ_BYTES = 1 << 20
_MIN_BYTES_PER_S = 8 << 20  # a slower server is as good as none


class _NoDatabase(exceptions.ConnectionError):
    pass


_WORDS = (
    (_NoDatabase, "has no database of the number in --kv-redis"),
    (exceptions.AuthenticationError, "refuses the user or the password of --kv-redis"),
    (exceptions.BusyLoadingError, "is still loading its data"),
    (exceptions.OutOfMemoryError, "is full and evicts nothing: set its maxmemory-policy to allkeys-lru"),
    (exceptions.ReadOnlyError, "is a replica, which cannot be written to: let --kv-redis name the primary"),
    (exceptions.AskError, "is part of a cluster: --kv-redis needs a server that keeps all keys"),
    (exceptions.NoPermissionError, "forbids a command to the user of --kv-redis"),
    (exceptions.TimeoutError, "did not answer in time"),
    (exceptions.ConnectionError, "cannot be reached, or hung up"),
    (exceptions.ResponseError, "answered with an error"),
)
_CAUSES = (
    (socket.gaierror, "cannot be reached, as no such host is known: check --kv-redis"),
    (ConnectionRefusedError, "cannot be reached, as nothing listens there: check --kv-redis"),
)
_OF_ALL = (exceptions.ConnectionError, exceptions.TimeoutError)  # wrong passwords are among them


@dataclass(slots=True)
class _Limits:
    """Of the round trip under way: when it must be over, and what may lie in memory unread."""

    deadline_s: float = 0.0
    max_bytes: int = 0

    def begin(self, timeout_s: float, num_bytes: int) -> None:
        self.deadline_s = time.monotonic() + 2 * timeout_s + num_bytes / _MIN_BYTES_PER_S
        self.max_bytes = num_bytes + 2 * _READ_BYTES

    def check(self, num_unread: int) -> None:
        if time.monotonic() > self.deadline_s:
            raise exceptions.TimeoutError
        if num_unread > self.max_bytes:
            raise exceptions.InvalidResponse


class _BoundedParser(_HiredisParser):
    """The socket's timeout starts anew with each byte; this one ends a reply that comes in drops, or without end."""

    def __init__(self, limits: _Limits, socket_read_size: int) -> None:
        _HiredisParser.__init__(self, socket_read_size)
        self._limits = limits

    def read_from_socket(self, *args: object, **kwargs: object) -> bool:
        self._limits.check(self._reader.len())
        return bool(_HiredisParser.read_from_socket(self, *args, **kwargs))


class Wire:
    """Connects when first used, and anew after a failure. Not for several threads.

    No wait is longer than `timeout_s`, and no round trip longer than twice that and what its bytes take.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        """Raises SetupError when this is no URL of a server."""
        self._timeout_s = timeout_s
        self._limits = _Limits()
        self._is_connected = False
        try:
            options = parse_url(re.sub("^valkey(s?)://", r"redis\1://", url))
            make = options.pop("connection_class", Connection)
            self._connection = make(**options | self._settings())
        except (TypeError, ValueError, exceptions.RedisError):
            raise SetupError(
                "--kv-redis is no URL of a Redis or Valkey server: it has the form "
                "redis://[[user]:password@]host[:port][/database], rediss:// with TLS, or unix:///path "
                "(TAILRACE_KV_REDIS stands for it)"
            ) from None
        self.address = str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")

    def _settings(self) -> dict[str, object]:
        limits = self._limits
        return {
            "socket_timeout": self._timeout_s,
            "socket_connect_timeout": self._timeout_s,
            "socket_read_size": _READ_BYTES,
            "retry": Retry(NoBackoff(), 0),  # who calls has a breaker
            "protocol": 2,
            "decode_responses": False,
            "health_check_interval": 0,
            "parser_class": lambda socket_read_size: _BoundedParser(limits, socket_read_size),
        }

    def round_trip(self, commands: Sequence[Command], num_bytes: int = 0) -> list[Reply]:
        """Send the commands together and read a reply to each. `num_bytes`: about what goes over the wire.

        Raises LevelFailure when anything goes wrong, an error among the replies included.
        """
        self._limits.begin(self._timeout_s, num_bytes)
        try:
            self._drop_stale()
            self._connect()
            self._connection.send_packed_command(self._connection.pack_commands(commands))
            replies = [self._connection.read_response(disable_decoding=True) for _ in commands]
        except Exception as error:  # the library meets whatever a server may send
            self.close()
            kind = Unreachable if isinstance(error, _OF_ALL) else LevelFailure
            raise kind(f"the server at {self.address} {_words(error)}") from None
        self._is_connected = True
        return replies

    def _connect(self) -> None:
        try:
            self._connection.connect()
        except exceptions.NoPermissionError:
            raise
        except exceptions.ResponseError:
            raise _NoDatabase from None

    def nonsense(self) -> LevelFailure:
        """To be raised when a reply is of the wrong kind; what else is on its way is not to be trusted either."""
        self.close()
        return LevelFailure(f"the server at {self.address} answered with nonsense")

    def number(self, reply: Reply) -> int:
        """The reply, which must be a number."""
        if not isinstance(reply, int):
            raise self.nonsense()
        return reply

    def bytes_of(self, reply: Reply) -> bytes:
        """The reply, which must be bytes."""
        if not isinstance(reply, bytes):
            raise self.nonsense()
        return reply

    def _drop_stale(self) -> None:
        """Leave a connection that the server has closed, or on which something lies that nobody asked for."""
        if not self._is_connected:
            return
        try:
            is_stale = bool(self._connection.can_read(timeout=0))
        except (exceptions.RedisError, OSError):
            is_stale = True
        if is_stale:
            self.close()

    def close(self) -> None:
        self._is_connected = False
        self._connection.disconnect()


def _words(error: Exception) -> str:
    causes = (words for kind, words in _CAUSES if isinstance(error.__context__, kind))
    return next(causes, next((words for kind, words in _WORDS if isinstance(error, kind)), "answered with nonsense"))
