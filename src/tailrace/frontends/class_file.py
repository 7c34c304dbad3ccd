"""Service classes as lines of a file, best first; one of them is the default.

{"name": "interactive", "priority": 4, "ttft_ms": 1000, "itl_ms": 50, "queue_ttl_s": 10}
{"name": "batch", "priority": 1, "ttft_ms": 60000, "itl_ms": 500, "queue_ttl_s": 600, "min_share": 0.1, "default": true}
"""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.errors import SetupError
from tailrace.frontends.json_lines import decode_lines
from tailrace.frontends.standing import SAYS_NOTHING

__all__ = ["read_classes"]

_MAX_FILE_BYTES = 1 << 20

Milliseconds = Annotated[float, Meta(gt=0, le=86_400_000)]


class _Line(Struct, forbid_unknown_fields=True):
    name: str
    priority: Annotated[float, Meta(gt=0, le=1e6)]
    ttft_ms: Milliseconds
    itl_ms: Milliseconds
    queue_ttl_s: Annotated[float, Meta(gt=0, le=86_400)]
    min_share: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    is_refused_late: bool = True
    max_yields: Annotated[int, Meta(ge=0, le=1_000)] = 3
    is_default: bool = field(name="default", default=False)


def read_classes(path: Path) -> ServiceClasses:
    """Raises SetupError with the line and the field."""
    lines = list(decode_lines(path, _Line, max_bytes=_MAX_FILE_BYTES))
    defaults = [line.name for _, line in lines if line.is_default]
    if len(defaults) != 1:
        raise SetupError(f'{path}: "default": true must be on one line, that of the class of requests that name none')
    classes = tuple(_service_class(line, place) for place, line in lines)
    try:
        return ServiceClasses(classes, defaults[0])
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from None


def _service_class(line: _Line, place: str) -> ServiceClass:
    if line.name == SAYS_NOTHING:
        raise SetupError(f"{place}: a class cannot be called {SAYS_NOTHING!r}: that is the tier of who names none")
    try:
        return ServiceClass(
            line.name,
            line.priority,
            ttft_s=line.ttft_ms / 1e3,
            itl_s=line.itl_ms / 1e3,
            min_share=line.min_share,
            queue_ttl_s=line.queue_ttl_s,
            is_refused_late=line.is_refused_late,
            max_yields=line.max_yields,
        )
    except SetupError as error:
        raise SetupError(f"{place}: {error}") from None
