"""Instruction counts of the hot kernels, from whatever can count here."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.kernels.callgrind import callgrind_isa, count_with_callgrind, native_module, why_no_callgrind
from benchmarks.kernels.counted import calls
from benchmarks.kernels.hardware import HardwareCounter, why_no_counter
from tailrace.ops.cpu.backend import supported_isas

__all__ = ["Counts", "count_instructions", "why_not"]

_TRIES = 5
_COMPILER = re.compile(rb"(?:GCC: \([^)\0]*\) |[A-Za-z ]*clang version )[\d.]+")


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions by the name of the counted step; comparable between builds of one compiler."""

    compiler: str
    instructions: dict[str, int]


def count_instructions(say: Callable[[str], None]) -> dict[str, Counts]:
    """By counter and instruction set: "callgrind, avx2". Empty when nothing can count here."""
    compiler = _compiler()
    found = {}
    if why_no_callgrind() is None:
        say(f"counting instructions with callgrind, {callgrind_isa()} (about 30 s)")
        found[f"callgrind, {callgrind_isa()}"] = Counts(compiler, count_with_callgrind())
    if why_no_counter() is None:
        isa = supported_isas()[0]
        say(f"counting instructions with the processor's counter, {isa}")
        found[f"processor, {isa}"] = Counts(compiler, _count_with_hardware(isa))
    return found


def why_not() -> list[str]:
    """What is missing for more counts, and how to get it."""
    return [reason for reason in (why_no_callgrind(), why_no_counter()) if reason is not None]


def _count_with_hardware(isa: str) -> dict[str, int]:
    counter = HardwareCounter()
    try:
        return {call.name: min(counter.count(call) for _ in range(_TRIES)) for call in calls(isa)}
    finally:
        counter.close()


def _compiler() -> str:
    """Who made the native module, as it says itself."""
    found = _COMPILER.search(native_module().read_bytes())
    return "unknown" if found is None else found[0].decode()
