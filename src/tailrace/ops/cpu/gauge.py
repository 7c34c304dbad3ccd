"""Measures what the processor does at best."""

from tailrace.ops import _native

__all__ = ["CpuGauge"]

_NUMBERS = ("int8", "bf16", "f32")
_VECTORS_BESIDE = {"amx": "avx512bf16"}  # what multiplies rows that are too few for the matrix units
_FEW_ROWS = "int8 few rows"
_LEAST_BYTES = 1 << 16


class CpuGauge:
    """Takes `max_bytes` of memory, the most that can be read."""

    def __init__(self, isa: str, num_threads: int, max_bytes: int) -> None:
        self._native = _native.Gauge(isa, num_threads, max_bytes)
        vectors = _VECTORS_BESIDE.get(isa)
        self._vectors = None if vectors is None else _native.Gauge(vectors, num_threads, _LEAST_BYTES)

    @property
    def numbers(self) -> tuple[str, ...]:
        return _NUMBERS if self._vectors is None else (*_NUMBERS, _FEW_ROWS)

    def read(self, num_bytes: int) -> float:
        return self._native.read(num_bytes)

    def multiply(self, numbers: str, count: int) -> float:
        if numbers == _FEW_ROWS and self._vectors is not None:
            return self._vectors.multiply("int8", count)
        return self._native.multiply(numbers, count)
