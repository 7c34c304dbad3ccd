"""The header Server-Timing of an answer that leaves as a whole: what its parts took, in milliseconds."""

from collections.abc import Iterator

from tailrace.telemetry.lives import RequestLife

__all__ = ["server_timing"]


def server_timing(life: RequestLife, now_s: float) -> tuple[bytes, bytes]:
    """`queue` is until the first step that computed some of it, `prefill` until its first token, `decode` until now."""
    entries = ", ".join(f"{name};dur={1e3 * seconds:.1f}" for name, seconds in _parts(life, now_s))
    return b"server-timing", entries.encode()


def _parts(life: RequestLife, now_s: float) -> Iterator[tuple[str, float]]:
    if (beginning := life.beginning) is not None:
        yield "queue", beginning.started_s - life.accepted_s
        yield "prefill", beginning.computed_s - beginning.started_s
        yield "decode", now_s - beginning.computed_s
    yield "total", now_s - life.accepted_s
