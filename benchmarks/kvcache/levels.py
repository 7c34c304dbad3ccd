"""How fast each level below the engine keeps, finds, gives and forgets blocks.

    python -m benchmarks.kvcache.levels [--block-bytes 16384 368640 2097152] [--total 256MiB] [--rounds 5]
                                        [--levels host disk redis] [--directory DIR] [--json]

Every round opens each level empty and has it keep blocks of one size in batches of 32, in chains of 64, give all of
them, look up all of them, keep as many again (each evicts another; not in Redis), forget half a chain, and open again
with what is left. A copy of as many bytes within memory is timed in the same round, and what moves bytes is shown as a
share of it. Medians. The disk is written through the page cache: this measures the level and the system's memory, not
the device.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from benchmarks.serving.machine import describe_machine
from tailrace.commands.quantity import parse_bytes
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import BlockLevel, StoredBlock
from tailrace.levels.config import HOST_DIRECTORY
from tailrace.levels.disk import DiskLevel
from tailrace.levels.disk_files import DiskFiles
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tailrace.levels.redis import open_redis
from tests.support.blocks import FINGERPRINT, chain
from tests.support.redis_server import running_redis

__all__ = ["EVICTING", "OPERATIONS", "Figure", "measure"]

BATCH = 32
CHAIN = 64
EVICTING = "keep, evicting"
OPERATIONS = ("keep", "give", "look up", EVICTING, "forget a prefix", "open again")
MOVING = ("keep", "give", EVICTING)


@dataclass(frozen=True, slots=True)
class Figure:
    """Of one operation on all blocks, or one forget, or one opening. `gb_per_s` and `of_copying` where bytes move."""

    level: str
    block_bytes: int
    num_blocks: int
    operation: str
    median_s: float
    gb_per_s: float | None
    of_copying: float | None


Item = TypeVar("Item")


class Workload:
    """Two sets of as many blocks, all with the same bytes in them, and buffers to read into."""

    def __init__(self, block_bytes: int, num_blocks: int) -> None:
        self.block_bytes = block_bytes
        self.num_blocks = num_blocks
        self._sources = np.random.default_rng(0).integers(0, 256, (BATCH, block_bytes), np.uint8)
        self._targets = np.zeros_like(self._sources)
        self._whole = np.ones((num_blocks, block_bytes), np.uint8)
        self.first, self.second = self._blocks("first"), self._blocks("second")
        self.buffers = [memoryview(row) for row in self._targets]

    def _blocks(self, label: str) -> list[StoredBlock]:
        heads = [head for start in range(0, self.num_blocks, CHAIN) for head in chain(f"{label} {start}", CHAIN)]
        return [
            StoredBlock(head, memoryview(self._sources[index % BATCH]))
            for index, head in enumerate(heads[: self.num_blocks])
        ]

    def copy(self) -> None:
        for index in range(self.num_blocks):
            np.copyto(self._whole[index], self._sources[index % BATCH])

    def timed(self, open_level: Callable[[], BlockLevel]) -> dict[str, float]:
        level = open_level()
        heads = [block.head for block in self.first]
        middle = Forget(Scope.PREFIX, self.second[min(CHAIN, self.num_blocks) // 2].head.name)
        steps: tuple[Callable[[], object], ...] = (
            lambda: self._keep(level, self.first),
            lambda: self._give(level, heads),
            lambda: [level.contain([head.name for head in batch]) for batch in _batches(heads, CHAIN)],
            lambda: self._keep(level, self.second),
            lambda: level.forget([middle]),
        )
        times = {operation: _seconds(step) for operation, step in zip(OPERATIONS, steps, strict=False)}
        level.close()
        times[OPERATIONS[-1]] = _seconds(lambda: open_level().close())
        return times

    def _keep(self, level: BlockLevel, blocks: Sequence[StoredBlock]) -> None:
        for batch in _batches(blocks, BATCH):
            version = 0 if level.log is None else level.log.version()
            if level.put(batch, version) != len(batch):
                raise RuntimeError(f"the {level.level} level did not take all blocks")

    def _give(self, level: BlockLevel, heads: Sequence[BlockHead]) -> None:
        for batch in _batches(heads, BATCH):
            if level.get([head.name for head in batch], self.buffers[: len(batch)]) != len(batch):
                raise RuntimeError(f"the {level.level} level did not give all blocks")


def _batches(items: Sequence[Item], length: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), length):
        yield items[start : start + length]


def _seconds(step: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    step()
    return time.perf_counter() - start_s


@contextmanager
def room_for(
    name: str, block_bytes: int, num_blocks: int, directory: Path | None
) -> Iterator[Callable[[], BlockLevel]]:
    """What opens a level with room for so many blocks: empty at first, and gone afterwards."""
    with ExitStack() as stack:
        if name == "redis":
            url = stack.enter_context(running_redis()).url
            yield lambda: open_redis(url, FINGERPRINT, ttl_s=3600.0, timeout_s=5.0)
            return
        shared = HOST_DIRECTORY if name == "host" else directory
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=shared)))
        if name == "host":
            yield lambda: HostLevel(block_bytes, Layout(block_bytes, num_blocks).file_bytes, directory=place)
        else:
            yield lambda: DiskLevel(place, block_bytes, DiskFiles.bytes_for(block_bytes, num_blocks))


def measure(
    names: Sequence[str], block_bytes: int, total_bytes: int, num_rounds: int, directory: Path | None = None
) -> list[Figure]:
    """One block size, all levels in turn."""
    work = Workload(block_bytes, max(2, total_bytes // block_bytes))
    times: dict[tuple[str, str], list[float]] = {}
    copies_s: list[float] = []
    for _ in range(num_rounds):
        copies_s.append(_seconds(work.copy))
        for name in names:
            with room_for(name, block_bytes, work.num_blocks, directory) as open_level:
                for operation, took_s in work.timed(open_level).items():
                    if name == "redis" and operation == EVICTING:
                        continue  # its server has a bound, or none, of its own
                    times.setdefault((name, operation), []).append(took_s)
    return [_figure(work, name, operation, median(of), median(copies_s)) for (name, operation), of in times.items()]


def _figure(work: Workload, level: str, operation: str, median_s: float, copy_s: float) -> Figure:
    moved_bytes = work.num_blocks * work.block_bytes if operation in MOVING else None
    return Figure(
        level,
        work.block_bytes,
        work.num_blocks,
        operation,
        median_s,
        moved_bytes and moved_bytes / median_s / 1e9,
        moved_bytes and copy_s / median_s,
    )


def _line(figure: Figure) -> str:
    each = (
        "" if figure.operation == "forget a prefix" else f"{figure.median_s / figure.num_blocks * 1e6:9.1f} us a block"
    )
    moved = f"{figure.gb_per_s:7.2f} GB/s {figure.of_copying:7.1%} of a copy" if figure.gb_per_s is not None else ""
    return f"  {figure.level:<6}{figure.operation:<16}{figure.median_s * 1e3:10.1f} ms {each:>21} {moved}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--block-bytes", type=int, nargs="+", default=[16_384, 368_640, 2_097_152])
    parser.add_argument("--total", type=parse_bytes, default=256 << 20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--levels", nargs="+", choices=("host", "disk", "redis"), default=["host", "disk", "redis"])
    parser.add_argument("--directory", type=Path, help="where the disk level lies [the system's for temporary files]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = [
        figure
        for block_bytes in arguments.block_bytes
        for figure in measure(arguments.levels, block_bytes, arguments.total, arguments.rounds, arguments.directory)
    ]
    if arguments.json:
        figures_json = [asdict(figure) for figure in figures]
        sys.stdout.write(json.dumps({"machine": describe_machine(), "figures": figures_json}, indent=2) + "\n")
        return
    print(describe_machine())
    for block_bytes in arguments.block_bytes:
        of_size = [figure for figure in figures if figure.block_bytes == block_bytes]
        print(f"{of_size[0].num_blocks:,} blocks of {block_bytes:,} bytes")
        print("\n".join(_line(figure) for figure in of_size))


if __name__ == "__main__":
    main()
