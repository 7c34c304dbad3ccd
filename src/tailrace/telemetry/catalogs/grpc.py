"""Metrics of the gRPC front end; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["GRPC_CALLS", "GRPC_CATALOG", "GRPC_IN_FLIGHT"]

GRPC_CALLS = Metric(
    "tailrace_grpc_calls",
    Kind.COUNTER,
    "calls",
    "gRPC calls that have ended, by method and status. CANCELLED: the client went away first, or its deadline passed.",
    labels=("method", "status"),
)
GRPC_IN_FLIGHT = Metric(
    "tailrace_grpc_calls_in_flight",
    Kind.GAUGE,
    "calls",
    "gRPC calls that are being answered.",
)

GRPC_CATALOG = (GRPC_CALLS, GRPC_IN_FLIGHT)
