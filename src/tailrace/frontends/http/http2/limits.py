"""What one HTTP/2 connection may ask of the server. Knows nothing of frames, only what an event of them costs."""

__all__ = [
    "CONNECTION_WINDOW_BYTES",
    "IDLE_S",
    "MAX_HEADERS_BYTES",
    "MAX_STREAMS",
    "STREAM_WINDOW_BYTES",
    "Allowance",
]

MAX_STREAMS = 128  # open at once
MAX_HEADERS_BYTES = 32 * 1024  # of one request, decompressed
STREAM_WINDOW_BYTES = 256 * 1024  # of a body, that the application has not taken yet
CONNECTION_WINDOW_BYTES = 1024 * 1024  # of all bodies together
IDLE_S = 75.0  # without a stream

_BURST = 2000.0
_PER_S = 200.0


class Allowance:
    """Frames cost the client less than the server: what it may spend beyond what it was given answers for.

    It is refilled with time, up to a burst, and with each piece of an answer, which a client acknowledges. A client
    that opens and resets streams without end, or floods with settings, pings, empty data or tiny window updates, has
    soon spent it.
    """

    __slots__ = ("_at_s", "_left")

    def __init__(self, now_s: float) -> None:
        self._left = _BURST
        self._at_s = now_s

    def earn(self, amount: float) -> None:
        self._left = min(_BURST, self._left + amount)

    def spend(self, cost: float, now_s: float) -> bool:
        """Whether there was enough for it."""
        self.earn((now_s - self._at_s) * _PER_S)
        self._at_s = now_s
        self._left -= cost
        return self._left >= 0
