"""Every instruction set of this build and machine computes what the portable kernels compute: compare.cpp says how."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.ops.cpu import supported_isas

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "kernels"
TOOLS = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path) -> list[str]:
    """The lines that a command says; a failure shows them."""
    done = subprocess.run(command, env=TOOLS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def stand_ins() -> set[str]:
    """What this machine lacks and still runs, with other instructions in the place of a few."""
    return {"avxvnni's stand-in", "amx's stand-in"} if "avx512bf16" in supported_isas() else set()


@pytest.mark.timeout(1200)  # compiles every kernel for every instruction set
def test_every_instruction_set_computes_what_the_portable_kernels_do() -> None:
    run("cmake", "-S", HERE, "-B", BUILD, "-G", "Ninja")
    run("cmake", "--build", BUILD)
    compared = {line.partition(" is portable: ")[0] for line in run(BUILD / "compare") if " is portable: " in line}

    assert compared == {*supported_isas(), *stand_ins()} - {"portable"}
