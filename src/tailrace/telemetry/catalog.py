"""Every metric the server has: one table, nothing else. Where the values come from is not known here.

Own names start with `tailrace_`. An alias is a series of the same meaning under the name that existing dashboards,
gateways and autoscalers read; it carries the labels `model_name` and `engine` besides, and never `class`: there it is
the sum over the service classes. `docs/metrics.md` is made of this table.
"""

from typing import NamedTuple

from tailrace.telemetry.answer_catalog import ANSWER_CATALOG
from tailrace.telemetry.class_catalog import CLASS_CATALOG
from tailrace.telemetry.engine_time_catalog import ENGINE_TIME_CATALOG
from tailrace.telemetry.grpc_catalog import GRPC_CATALOG
from tailrace.telemetry.http_catalog import HTTP_CATALOG
from tailrace.telemetry.kv_catalog import KV_CATALOG
from tailrace.telemetry.level_catalog import LEVEL_CATALOG
from tailrace.telemetry.life_catalog import LIFE_CATALOG
from tailrace.telemetry.metric import Kind, Metric
from tailrace.telemetry.op_catalog import OP_CATALOG
from tailrace.telemetry.process_catalog import PROCESS_CATALOG
from tailrace.telemetry.request_catalog import REQUEST_CATALOG
from tailrace.telemetry.residency_catalog import RESIDENCY_CATALOG
from tailrace.telemetry.rule_catalog import RULE_CATALOG
from tailrace.telemetry.server_catalog import SERVER_CATALOG
from tailrace.telemetry.shm_catalog import SHM_CATALOG
from tailrace.telemetry.span_catalog import SPAN_CATALOG
from tailrace.telemetry.step_catalog import STEP_CATALOG

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
