"""Every instruction set of this build and machine computes what the portable kernels compute: compare.cpp says how."""

import re
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.ops.cpu.backend import CpuBackend, supported_isas
from tests.support.native import built_programs, package_build, run, undisturbed

pytestmark = pytest.mark.timeout(1200)  # the first test compiles every kernel for every instruction set

# What Linux calls the parts of an instruction set, as far as they tell it from the others.
FLAGS = {
    "avx2": {"avx2", "fma", "f16c"},
    "avxvnni": {"avx2", "avx_vnni"},
    "avx512vnni": {"avx512vl", "avx512_vnni"},
    "avx512bf16": {"avx512_vnni", "avx512_bf16"},
    "amx": {"avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"},
    "neon": {"asimd"},
    "dotprod": {"asimd", "asimddp"},
}
HERE = Path(__file__).parent


def stand_ins() -> set[str]:
    """What this machine lacks and still runs, with other instructions in the place of a few."""
    return {"avxvnni's stand-in", "amx's stand-in"} if "avx512bf16" in supported_isas() else set()


@pytest.fixture(scope="module")
def build() -> Path:
    """Where the package's own kernels were compiled; those of an installed package are compiled again."""
    build = package_build()
    if build is None:
        return built_programs(HERE)
    with undisturbed(build):
        run("cmake", "--build", build, "--target", "compare")
    return build


def test_every_instruction_set_computes_what_the_portable_kernels_do(build: Path) -> None:
    compared = {line.partition(" is portable: ")[0] for line in run(build / "compare") if " is portable: " in line}

    assert compared == {*supported_isas(), *stand_ins()} - {"portable"}


def test_no_function_is_shared_between_instruction_sets(build: Path) -> None:
    """Of functions with one name in several files the linker keeps one: older processors might get that of newer ones.

    What lies in an instruction set's own namespace has a name of its own.
    """
    objects = [path for path in build.rglob("kernels_*/**/*.o") if "stand_in" not in str(path)]
    shared = [name for path in objects for name in weak_symbols(path) if isa_of(path) not in name]

    assert len(objects) > 8 * len(supported_isas())
    assert shared == []


def isa_of(path: Path) -> str:
    """The instruction set that an object was compiled for, as names of its functions hold it."""
    (directory,) = (part for part in path.parts if part.startswith("kernels_"))
    isa = directory.removeprefix("kernels_").removesuffix(".dir")
    return f"{len(isa)}{isa}"


def weak_symbols(path: Path) -> list[str]:
    symbols = [line.split()[-2:] for line in run("nm", path)]
    return [name for kind, name in symbols if kind in "WVu"]


def test_the_instruction_sets_are_those_that_the_system_names() -> None:
    """Where it does: Linux. It may name the tiles of AMX and still refuse them to a process."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text() if cpuinfo.exists() else ""
    flags = set(re.findall(r"\w+", "".join(re.findall(r"^(?:flags|Features)\s*:(.*)$", lines, re.MULTILINE))))
    named = {isa for isa, wanted in FLAGS.items() if wanted <= flags}
    found = set(supported_isas()) - {"portable"}

    assert not flags or found - {"amx"} == named - {"amx"}
    assert not flags or ("amx" in found) <= ("amx" in named)


@pytest.mark.parametrize("isa", sorted(FLAGS.keys() - set(supported_isas())))
def test_an_instruction_set_that_is_not_there_is_refused_with_the_choices(isa: str) -> None:
    with pytest.raises(SetupError, match=f"no instruction set '{isa}'.*{', '.join(supported_isas())}"):
        CpuBackend(isa)
