"""Reading foreign settings (GGUF metadata, config.json): typed, bounded, and named in every complaint."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.errors import CheckpointError

__all__ = ["Fields"]

_MAX_INTEGER = 1 << 31


@dataclass(frozen=True, slots=True)
class Fields:
    """A table of settings from `source`. Readers raise CheckpointError; without a default a value is required.

    A null counts as absent: config files write it for "not used".
    """

    source: str
    values: Mapping[str, Any]

    def has(self, key: str) -> bool:
        return self.values.get(key) is not None

    def integer(self, key: str, default: int | None = None, *, low: int = 1, high: int = _MAX_INTEGER) -> int:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, "an integer")
        if not low <= value <= high:
            raise self.wrong(key, f"between {low} and {high}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(key, "a finite number")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        value = self.number(key, default)
        if value <= 0:
            raise self.wrong(key, "positive")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def table(self, key: str) -> "Fields":
        """A nested table; empty when absent."""
        value = self._value(key, {})
        if not isinstance(value, Mapping):
            raise self.wrong(key, "a table")
        return Fields(f"{self.source}: {key}", value)

    def wrong(self, key: str, wanted: str) -> CheckpointError:
        """The complaint about a value that is not what it should be, be it one that stands in for an absent one."""
        is_what = f"is {_shown(self.values[key])}," if self.has(key) else "is missing;"
        return CheckpointError(f"{self.source}: {key} {is_what} it must be {wanted}")

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is None:
            raise CheckpointError(f"{self.source}: {key} is missing")
        return default


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
