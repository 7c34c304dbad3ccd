"""The one device switch: which back end computes."""

from tailrace.errors import SetupError
from tailrace.ops.api import Backend
from tailrace.ops.reference import ReferenceBackend

__all__ = ["BACKENDS", "load_backend"]

BACKENDS = ("auto", "cpu", "reference")


def load_backend(name: str = "auto") -> Backend:
    """The back end of this name; `auto` is the fastest there is. Raises SetupError for other names."""
    match name:
        case "reference":
            return ReferenceBackend()
        case "cpu" | "auto":
            return _cpu()
        case _:
            raise SetupError(f"unknown back end {name!r}: choose one of {', '.join(BACKENDS)}")


def _cpu() -> Backend:
    try:
        from tailrace.ops.cpu import CpuBackend  # noqa: PLC0415  (only who wants it needs the compiled module)
    except ImportError as error:
        raise SetupError(
            f"the native module is not built ({error}): install the package with a C++20 compiler, or take the "
            "reference back end"
        ) from error
    return CpuBackend()
