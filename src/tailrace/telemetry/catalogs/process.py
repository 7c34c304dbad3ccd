"""Metrics of the processes of a server; part of the catalog."""

from tailrace.telemetry.metric import Kind, Metric

__all__ = [
    "BUILD_INFO",
    "GC_PAUSE_SECONDS",
    "PROCESS_CATALOG",
    "PROCESS_CPU_SECONDS",
    "PROCESS_ID",
    "PROCESS_MAX_FILES",
    "PROCESS_OPEN_FILES",
    "PROCESS_RESIDENT_BYTES",
    "PROCESS_START_SECONDS",
]

_GC_PAUSE_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)

GC_PAUSE_SECONDS = Metric(
    "tailrace_gc_pause_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Time for which the garbage collector held up the whole process, by the oldest generation that it visited.",
    labels=("generation",),
    buckets=_GC_PAUSE_S,
)
PROCESS_RESIDENT_BYTES = Metric(
    "tailrace_process_resident_bytes",
    Kind.GAUGE,
    "bytes",
    "Physical memory of each process of the server; what several share, such as weights, counts in each.",
    labels=("process",),
)
PROCESS_CPU_SECONDS = Metric(
    "tailrace_process_cpu_seconds",
    Kind.COUNTER,
    "seconds",
    "Processor time that each process of the server has taken, and those whose place it took.",
    labels=("process",),
)
PROCESS_OPEN_FILES = Metric(
    "tailrace_process_open_files",
    Kind.GAUGE,
    "files",
    "Files and sockets that each process of the server has open.",
    labels=("process",),
)
PROCESS_MAX_FILES = Metric(
    "tailrace_process_max_files",
    Kind.GAUGE,
    "files",
    "Files and sockets that each process of the server may have open.",
    labels=("process",),
)
PROCESS_START_SECONDS = Metric(
    "tailrace_process_start_time_seconds",
    Kind.GAUGE,
    "seconds",
    "When each process of the server was started, since 1970.",
    labels=("process",),
)
PROCESS_ID = Metric(
    "tailrace_process_id",
    Kind.GAUGE,
    "",
    "The number that the system gave each process of the server, for those who look at it from outside.",
    labels=("process",),
)
BUILD_INFO = Metric(
    "tailrace_build_info",
    Kind.GAUGE,
    "",
    "Always 1; the labels say what is running.",
    labels=("version", "model_name"),
)

PROCESS_CATALOG = (
    GC_PAUSE_SECONDS,
    PROCESS_RESIDENT_BYTES,
    PROCESS_CPU_SECONDS,
    PROCESS_OPEN_FILES,
    PROCESS_MAX_FILES,
    PROCESS_START_SECONDS,
    PROCESS_ID,
    BUILD_INFO,
)
