"""How the ceilings of a device are found: one try after the other, of reading and of multiplying."""

from typing import Protocol

__all__ = ["Gauge"]


class Gauge(Protocol):
    """Makes a device do one thing as fast as it can, with a number of threads and the instructions of our kernels."""

    @property
    def numbers(self) -> tuple[str, ...]:
        """The kinds of numbers that it can multiply, by the names that `telemetry.roofline` has for them."""
        ...

    def read(self, num_bytes: int) -> float:
        """Bytes a second, in one try, of reading as many again and again."""
        ...

    def multiply(self, numbers: str, count: int) -> float:
        """Multiplications and additions a second, in one try; each thread does `count` times 16 products or more."""
        ...
