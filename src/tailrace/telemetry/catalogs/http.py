"""Metrics of the HTTP front end; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["BUFFERED_BYTES", "CLIENT_DISCONNECTS", "HTTP_CATALOG", "HTTP_IN_FLIGHT", "HTTP_REQUESTS", "STREAMS_RESUMED"]

HTTP_REQUESTS = Metric(
    "tailrace_http_requests",
    Kind.COUNTER,
    "requests",
    "HTTP requests answered, by route and status; 499: the client went away first.",
    labels=("route", "status"),
)
STREAMS_RESUMED = Metric(
    "tailrace_http_streams_resumed",
    Kind.COUNTER,
    "streams",
    "Clients that wanted to go on with a stream: resumed, expired (it had ended too long ago), unknown.",
    labels=("outcome",),
)
HTTP_IN_FLIGHT = Metric(
    "tailrace_http_requests_in_flight",
    Kind.GAUGE,
    "requests",
    "HTTP requests that are being answered.",
)
CLIENT_DISCONNECTS = Metric(
    "tailrace_http_client_disconnects",
    Kind.COUNTER,
    "requests",
    "Clients that went away early: while sending the body, waiting for the first text, being answered, or leaving a "
    "written piece untaken; stalled: those that the server cut off, since they took nothing for --stall-timeout.",
    labels=("phase",),
)
BUFFERED_BYTES = Metric(
    "tailrace_http_buffered_bytes",
    Kind.GAUGE,
    "bytes",
    "Written pieces of event streams that wait for clients to take what came before.",
)

HTTP_CATALOG = (
    HTTP_REQUESTS,
    HTTP_IN_FLIGHT,
    CLIENT_DISCONNECTS,
    BUFFERED_BYTES,
    STREAMS_RESUMED,
)
