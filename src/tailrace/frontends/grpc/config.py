"""What a gRPC front end may be told: limits and names."""

from dataclasses import dataclass, field

from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.rate_gate import RateGate
from tailrace.frontends.rate_table import RateTable
from tailrace.frontends.trace_context import NO_TRACING, Tracing

__all__ = ["GrpcConfig"]


@dataclass(frozen=True, slots=True)
class GrpcConfig:
    """Bounds of a call and of its connection, and what answers call this build."""

    version: str = "0"
    admin_key: str | None = field(default=None, repr=False)  # of those who may empty the cache; None: nobody
    api_keys: ApiKeys = field(default_factory=lambda: ApiKeys({}), repr=False)  # of those who may have answers
    gate: RateGate = field(default_factory=lambda: RateGate(RateTable.alone()), repr=False)  # limits of these keys
    tracing: Tracing = NO_TRACING
    max_request_bytes: int = 16 * 1024 * 1024
    max_metadata_bytes: int = 16 * 1024
    max_calls: int = 4096  # at once, in this process; more are refused before anything is read of them
    max_streams: int = 1024  # calls of one connection at once; its client holds the others back
    max_buffered_bytes: int = 64 * 1024  # of one stream, while its client reads slowly; then computing stops
    stall_s: float = 30.0  # so long a client may read nothing of what is there for it
    ping_s: float = 60.0  # a connection on which nothing happens is probed, and closed if it is dead
    ping_timeout_s: float = 20.0
    min_ping_s: float = 10.0  # clients that probe more often are sent away
