"""Every metric the server has: one table of what is in `catalogs`. Where the values come from is not known here.

Own names start with `tailrace_`. An alias is a series of the same meaning under the name that existing dashboards,
gateways and autoscalers read; it carries the labels `model_name` and `engine` besides, and never `class`: there it is
the sum over the service classes. `docs/metrics.md` is made of this table.
"""

from typing import NamedTuple

from tailrace.telemetry.catalogs.answers import ANSWER_CATALOG
from tailrace.telemetry.catalogs.classes import CLASS_CATALOG
from tailrace.telemetry.catalogs.engine_time import ENGINE_TIME_CATALOG
from tailrace.telemetry.catalogs.grpc import GRPC_CATALOG
from tailrace.telemetry.catalogs.http import HTTP_CATALOG
from tailrace.telemetry.catalogs.kv import KV_CATALOG
from tailrace.telemetry.catalogs.levels import LEVEL_CATALOG
from tailrace.telemetry.catalogs.lives import LIFE_CATALOG
from tailrace.telemetry.catalogs.ops import OP_CATALOG
from tailrace.telemetry.catalogs.process import PROCESS_CATALOG
from tailrace.telemetry.catalogs.requests import REQUEST_CATALOG
from tailrace.telemetry.catalogs.residency import RESIDENCY_CATALOG
from tailrace.telemetry.catalogs.rules import RULE_CATALOG
from tailrace.telemetry.catalogs.server import SERVER_CATALOG
from tailrace.telemetry.catalogs.shm import SHM_CATALOG
from tailrace.telemetry.catalogs.spans import SPAN_CATALOG
from tailrace.telemetry.catalogs.steps import STEP_CATALOG
from tailrace.telemetry.metric import Kind, Metric

__all__ = ["CATALOG", "GROUPS", "Group", "Kind", "Metric"]


class Group(NamedTuple):
    title: str
    metrics: tuple[Metric, ...]


GROUPS = (
    Group("Requests", REQUEST_CATALOG),
    Group("Service classes, targets and control", CLASS_CATALOG),
    Group("Answers, at any front end", ANSWER_CATALOG),
    Group("Where the time of answers goes", LIFE_CATALOG),
    Group("Prefix cache and KV memory", KV_CATALOG),
    Group("Levels below the engine", LEVEL_CATALOG),
    Group("Steps", STEP_CATALOG),
    Group("Ops of timed steps", OP_CATALOG),
    Group("The step loop's time", ENGINE_TIME_CATALOG),
    Group("Experts that are loaded when they are chosen", RESIDENCY_CATALOG),
    Group("HTTP", HTTP_CATALOG),
    Group("gRPC", GRPC_CATALOG),
    Group("Shared memory", SHM_CATALOG),
    Group("Spans for a collector of traces", SPAN_CATALOG),
    Group("Events and rules", RULE_CATALOG),
    Group("The server", SERVER_CATALOG),
    Group("Processes", PROCESS_CATALOG),
)
CATALOG: tuple[Metric, ...] = tuple(metric for group in GROUPS for metric in group.metrics)
