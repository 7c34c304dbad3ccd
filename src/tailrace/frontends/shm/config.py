"""What the front end in shared memory may be told: bounds."""

from dataclasses import dataclass

from tailrace.frontends.trace_context import NO_TRACING, Tracing

__all__ = ["ShmConfig"]


@dataclass(frozen=True, slots=True)
class ShmConfig:
    """Of one API process; what one client may have at once, the layout says."""

    max_clients: int = 64
    stall_s: float = 30.0  # an answer of which its client has read nothing for so long is given up
    tracing: Tracing = NO_TRACING
