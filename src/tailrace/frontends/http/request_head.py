"""How large the head of a request may be, and how long its client may take to send it."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

__all__ = ["HEAD_TIMEOUT_S", "MAX_HEADERS", "MAX_HEAD_BYTES", "REFUSAL", "HeadWatch", "is_too_large"]

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 128
HEAD_TIMEOUT_S = 30.0

_BODY = msgspec.json.encode(
    {
        "error": {
            "message": f"the head of a request has at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers",
            "type": "invalid_request_error",
            "param": None,
            "code": "headers_too_large",
        }
    }
)
REFUSAL = b"\r\n".join(
    (
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"content-type: application/json",
        b"content-length: %d" % len(_BODY),
        b"connection: close",
        b"",
        _BODY,
    )
)


def is_too_large(url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Of a head that is complete. The size includes what separates the fields."""
    num_bytes = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
    return len(headers) > MAX_HEADERS or num_bytes > MAX_HEAD_BYTES


class HeadWatch:
    """One connection's: counts what arrives of a head that is not complete, and gives up on one that never is.

    The piece of data in which a head begins is not counted: most of it may be of the request before.
    """

    def __init__(self, give_up: Callable[[], None], timeout_s: float = HEAD_TIMEOUT_S) -> None:
        self._give_up = give_up
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None
        self._num_bytes = 0

    @property
    def is_in_head(self) -> bool:
        return self._timer is not None

    def begin(self) -> None:
        self.end()
        self._num_bytes = 0
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._give_up)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def count(self, num_bytes: int) -> bool:
        """Bytes of a head that went on, and whether that is still so few."""
        self._num_bytes += num_bytes
        return self._num_bytes <= MAX_HEAD_BYTES
