"""Metrics of a server's processes as parts of a whole: who was started again, and how full lies between them."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["API_RESTARTS", "ENGINE_RESTARTS", "ENGINE_UP", "REQUESTS_RESUMED", "RING_USED", "SERVER_CATALOG"]

ENGINE_UP = Metric(
    "tailrace_engine_up",
    Kind.GAUGE,
    "engines",
    "1: there is an engine that takes requests; 0: it is being started, or has died too often.",
)
ENGINE_RESTARTS = Metric(
    "tailrace_engine_restarts",
    Kind.COUNTER,
    "restarts",
    "Times that the engine was started again, since it had died or hung.",
)
API_RESTARTS = Metric(
    "tailrace_api_restarts",
    Kind.COUNTER,
    "restarts",
    "Times that an API process was started again, since it had died or hung.",
)
REQUESTS_RESUMED = Metric(
    "tailrace_requests_resumed",
    Kind.COUNTER,
    "requests",
    "Requests that an engine left behind when it died and that were handed to the next; one counts each time.",
)
RING_USED = Metric(
    "tailrace_ring_used_ratio",
    Kind.GAUGE,
    "ratio",
    "How full the rings between each API process and the engine are: commands to it, tokens and their details from it. "
    "From 0.75 on, the engine computes nothing more for that process until it has caught up.",
    labels=("process", "ring"),
)

SERVER_CATALOG = (ENGINE_UP, ENGINE_RESTARTS, API_RESTARTS, REQUESTS_RESUMED, RING_USED)
