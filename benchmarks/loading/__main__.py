"""How fast weights are narrowed on their way in: `python -m benchmarks.loading --help`.

Matrices of stored forms, drawn at random, become int8 and int4: natively on one thread and on two, and as numpy and the
gguf package do it, on one. The rate at which memory is read stands beside, measured again for each form: nothing that
reads a file in memory is faster. Ways are measured in turn, `--rounds` times; medians are shown.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.loading.contestants import Contestant, contestants
from benchmarks.loading.matrices import FORMS, Matrix, draw
from benchmarks.loading.timing import Rate, Times, timed
from benchmarks.serving.machine import describe_machine
from tailrace.ops.load import reading_rate
from tailrace.ops.narrow import is_native
from tailrace.weights.quantize import Mode

MODES: tuple[Mode, ...] = ("int8", "int4")
_READ_BYTES = 1 << 29


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loading",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--millions", type=int, default=64, help="of values in a matrix")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(words)
    if not 1 <= arguments.millions <= 256 or arguments.rounds < 1:
        parser.error("a matrix has 1 to 256 million values, and there must be a round")
    return arguments


def measure(matrix: Matrix, mode: Mode, rounds: int, ways: Sequence[Contestant]) -> list[Rate]:
    times: list[list[Times]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, found in zip(ways, times, strict=True):
            part = matrix.rows(way.share)
            found.append(timed(partial(way.convert, part, mode)) / part.num_values)
    return [Rate.of(found) for found in times]


def rows_of(form: str, millions: int, rounds: int) -> list[list[str]]:
    matrix = draw(form, millions << 20)
    ways = contestants()
    found = []
    for mode in MODES:
        rates = measure(matrix, mode, rounds, ways)
        stored = matrix.bytes_per_value
        cells = [cell for rate in rates for cell in (f"{rate.wall / 1e6:.0f}", f"{rate.wall * stored / 1e9:.2f}")]
        per_cpu = [f"{rate.cpu / 1e6:.0f}" for rate in rates]
        found.append([form, mode, *cells, *per_cpu])
    return found


def main() -> None:
    arguments = parse_arguments()
    if not is_native():
        sys.exit("the native module is not built: there is nothing to compare with")
    table = Table(title="Million values a second, and GB/s of what is stored; then million values a second of CPU time")
    for column in (
        "form",
        "to",
        *(cell for way in contestants() for cell in (way.name, "GB/s")),
        *(f"CPU: {way.name}" for way in contestants()),
    ):
        table.add_column(column, justify="left" if column in ("form", "to") else "right")
    reading: list[tuple[float, float]] = []
    for form in arguments.forms:
        reading.append((reading_rate("cpu", 1, _READ_BYTES) or 0.0, reading_rate("cpu", 2, _READ_BYTES) or 0.0))
        for row in rows_of(form, arguments.millions, arguments.rounds):
            table.add_row(*row)
    console = Console(width=140)
    console.print(describe_machine())
    console.print(table)
    one, two = (median(rates) / 1e9 for rates in zip(*reading, strict=True))
    console.print(f"Memory is read at {one:.1f} GB/s by one thread, {two:.1f} GB/s by two.")


if __name__ == "__main__":
    main()
