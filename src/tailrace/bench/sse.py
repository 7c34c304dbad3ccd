"""Server-sent events, read incrementally: bytes in, the data of each complete event out."""

from tailrace.bench.exchange import WireError

__all__ = ["EventParser"]

MAX_EVENT_BYTES = 1 << 23


class EventParser:
    """Splits a byte stream into events, wherever it was cut; comments and fields other than `data` are skipped."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that `chunk` completes. Raises WireError when one outgrows its bound."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events = [event for line in lines if (event := self._take(line.removesuffix(b"\r"))) is not None]
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise WireError("garbage", f"an event is longer than {MAX_EVENT_BYTES >> 20} MiB")
        return events

    def _take(self, line: bytes) -> bytes | None:
        if not line:
            event = b"\n".join(self._data) if self._data else None
            self._data, self._size = [], 0
            return event
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._size += len(line)
        return None
