"""Metrics of the front end in shared memory; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = ["RULES_BROKEN", "SHM_CATALOG", "SHM_CLIENTS", "SHM_REQUESTS", "TURNED_AWAY"]

SHM_CLIENTS = Metric(
    "tailrace_shm_clients",
    Kind.GAUGE,
    "clients",
    "Clients in shared memory that are connected.",
)
SHM_REQUESTS = Metric(
    "tailrace_shm_requests",
    Kind.COUNTER,
    "requests",
    "Requests in shared memory that have ended: complete, cancelled, stalled (nothing was read for long), "
    "refused, unavailable, failed, gone (the client went away).",
    labels=("outcome",),
)
TURNED_AWAY = Metric(
    "tailrace_shm_clients_turned_away",
    Kind.COUNTER,
    "clients",
    "Clients in shared memory that were not let in: full, version (they speak another), nonsense.",
    labels=("reason",),
)
RULES_BROKEN = Metric(
    "tailrace_shm_rules_broken",
    Kind.COUNTER,
    "clients",
    "Clients in shared memory that were cut off, since what they wrote cannot be.",
)

SHM_CATALOG = (SHM_CLIENTS, SHM_REQUESTS, TURNED_AWAY, RULES_BROKEN)
