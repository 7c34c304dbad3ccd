"""What is left to a client, in the headers that OpenAI's clients read."""

from collections.abc import Iterator

from tailrace.frontends.rate_gate import Left, Visit

__all__ = ["rate_headers"]

Header = tuple[bytes, bytes]


def rate_headers(visit: Visit) -> Iterator[Header]:
    for what, left in ((b"requests", visit.requests), (b"tokens", visit.tokens)):
        if left is not None:
            yield from _headers(what, left)


def _headers(what: bytes, left: Left) -> Iterator[Header]:
    yield b"x-ratelimit-limit-" + what, b"%d" % left.limit
    yield b"x-ratelimit-remaining-" + what, b"%d" % left.left
    yield b"x-ratelimit-reset-" + what, _duration(left.reset_s).encode()


def _duration(seconds: float) -> str:
    """As Go writes it, in whole milliseconds: 120ms, 8.64s, 6m0s."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    shown = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    return f"{minutes}m{shown}" if minutes else shown
