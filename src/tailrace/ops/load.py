"""The one device switch: which back end computes."""

from typing import TYPE_CHECKING

from tailrace.errors import SetupError
from tailrace.ops.api import Backend, Ceilings, KvFormat
from tailrace.ops.ceilings import Gauge

if TYPE_CHECKING:
    from tailrace.ops.cpu.backend import CpuBackend

__all__ = [
    "BACKENDS",
    "instruction_set",
    "is_gauged",
    "load_backend",
    "load_gauge",
    "measured_ceilings",
    "reading_rate",
]

BACKENDS = ("auto", "cpu", "reference")


def load_backend(name: str = "auto", kv_format: KvFormat | None = None) -> Backend:
    """The back end of this name; `auto` is the fastest there is. Without `kv_format`, it chooses how to keep KV.

    Raises SetupError for other names, and for a KV format that the back end does not have.
    """
    match name:
        case "reference":
            from tailrace.ops.reference import ReferenceBackend  # noqa: PLC0415  (who serves has no use for it)

            if kv_format not in (None, ReferenceBackend.kv_format):
                raise SetupError(f"the reference back end keeps KV in f32, not in {kv_format}: take another back end")
            return ReferenceBackend()
        case "cpu" | "auto":
            return _cpu(kv_format or "bf16")
        case _:
            raise SetupError(f"unknown back end {name!r}: choose one of {', '.join(BACKENDS)}")


def _cpu(kv_format: KvFormat) -> "CpuBackend":
    try:
        from tailrace.ops.cpu.backend import CpuBackend  # noqa: PLC0415  (only who wants it needs the compiled module)
    except ImportError as error:
        raise SetupError(
            f"the native module is not built ({error}): install the package with a C++20 compiler, or take the "
            "reference back end"
        ) from error
    return CpuBackend(kv_format=kv_format)


def measured_ceilings(name: str, num_threads: int, num_bytes: int) -> Ceilings | None:
    """What a back end's device does at best, found by reading `num_bytes`.

    None for the reference, which nobody runs for speed.
    """
    if load_backend(name).name != "cpu":
        return None
    from tailrace.ops.cpu.backend import measure_ceilings  # noqa: PLC0415  (as above)

    return measure_ceilings(num_threads, num_bytes)


def reading_rate(name: str, num_threads: int, num_bytes: int) -> float | None:
    """Of `measured_ceilings` the bytes a second that are read from memory."""
    ceilings = measured_ceilings(name, num_threads, num_bytes)
    return None if ceilings is None else ceilings.read_bytes_per_s


def instruction_set() -> str:
    """The name of what the fastest back end computes with. Raises SetupError where it is not built."""
    return _cpu("bf16").isa


def is_gauged(name: str) -> bool:
    """Whether `load_gauge` measures the device of this back end. Nobody runs the reference for speed."""
    return name == "cpu"


def load_gauge(num_threads: int, max_bytes: int) -> Gauge:
    """What measures the device of the fastest back end. Raises SetupError where it is not built."""
    isa = instruction_set()
    from tailrace.ops.cpu.gauge import CpuGauge  # noqa: PLC0415  (as above)

    return CpuGauge(isa, num_threads, max_bytes)
