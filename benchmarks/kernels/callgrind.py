"""Instructions of each counted step, by callgrind: the same number every time, on any machine.

Valgrind runs no AVX-512, so this counts the kernels of the best instruction set that it does run. Only instructions of
the native module count: what Python, numpy and libc do on the way is left out.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tailrace.ops.cpu.backend import supported_isas

__all__ = ["callgrind_isa", "count_with_callgrind", "instructions_of", "native_module", "why_no_callgrind"]

_UNKNOWN_TO_VALGRIND = ("amx", "avx512", "vnni")
_OBJECT = re.compile(r"c?ob=\((\d+)\)(?: (.+))?")


def why_no_callgrind() -> str | None:
    """What to do to get these counts, or None when they can be had."""
    if shutil.which("valgrind") is None:
        return "valgrind is missing: install it (apt install valgrind, dnf install valgrind) to count instructions"
    return None


def callgrind_isa() -> str:
    return next(isa for isa in supported_isas() if not any(word in isa for word in _UNKNOWN_TO_VALGRIND))


def count_with_callgrind() -> dict[str, int]:
    """Instructions by the name of the counted step. Raises SystemExit when callgrind fails."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={out}"),
                *(sys.executable, "-m", "benchmarks.kernels.counted", callgrind_isa()),
            ],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"callgrind failed:\n{done.stderr[-2000:]}")
        native = native_module()
        # Part 1 ends before the first call, part 2 behind it, part 3 before the second call, and so on.
        return {
            name: instructions_of(Path(f"{out}.{2 * number}").read_text().splitlines(), native)
            for number, name in enumerate(done.stdout.splitlines(), start=1)
        }


def native_module() -> Path:
    spec = find_spec("tailrace.ops._native")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def instructions_of(lines: Iterable[str], module: Path) -> int:
    """What a part of callgrind's output charges to functions of `module` themselves."""
    names: dict[str, str] = {}
    total, current, is_callee = 0, "", False
    for line in lines:
        if found := _OBJECT.match(line):
            number, name = found.groups()
            if name is not None:
                names[number] = name
            if line.startswith("ob="):
                current = names[number]
        elif line.startswith("calls="):
            is_callee = True  # the next line is what the callee took
        elif line[:1] and line[0] in "0123456789+-*":
            if not is_callee and Path(current) == module:
                total += int(line.split()[1])
            is_callee = False
    return total
