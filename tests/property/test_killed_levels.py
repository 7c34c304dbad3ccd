"""Users of a level that are killed anywhere: what is left is right, all of it can be used, and nobody waits for them.

TAILRACE_SOAK=1 kills at every line, and more often in passing.
"""

import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tailrace.kvcache.forget import Forget, Scope
from tailrace.levels.api import BlockLevel, Outdated
from tailrace.levels.disk import DiskLevel
from tailrace.levels.disk_files import DiskFiles
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tailrace.levels.segment import host_path
from tests.support.blocks import FINGERPRINT, chain, fetched, stored, version_of
from tests.support.killed import dies_at_line, forked, kill_after

SOAK = bool(os.environ.get("TAILRACE_SOAK"))
STRIDE = 1 if SOAK else 47  # lines
NUM_KILLS = 1000 if SOAK else 12
NUM_TOGETHER = 20_000 if SOAK else 200  # operations of each
BLOCK = 5000
NUM_BLOCKS = 8
LABELS = [str(label) for label in range(6)]


def host(directory: Path) -> HostLevel:
    return HostLevel(BLOCK, Layout(BLOCK, NUM_BLOCKS).file_bytes, directory=directory)


def disk(directory: Path) -> DiskLevel:
    return DiskLevel(directory, BLOCK, DiskFiles.bytes_for(BLOCK, NUM_BLOCKS))


def some_of_all(open_level: Callable[[Path], BlockLevel], directory: Path) -> None:
    level = open_level(directory)
    level.put(stored(chain("a", 3) + chain("b", 3), BLOCK), version_of(level))
    fetched(level, chain("a", 3), BLOCK)
    level.forget([Forget(Scope.BLOCK, chain("a", 1)[0].name), Forget(Scope.PREFIX, chain("b", 1)[0].name)])
    level.put(stored(chain("a", 2) + chain("c", 6), BLOCK), version_of(level))
    level.close()


def use_all(level: BlockLevel, line: int) -> None:
    """All slots can be written, and what is there is right."""
    for label in "abc":
        for head in chain(label, 6):
            fetched(level, [head], BLOCK)
    fresh = chain(f"fresh {line}", NUM_BLOCKS)
    assert level.put(stored(fresh, BLOCK), version_of(level)) == NUM_BLOCKS
    assert fetched(level, fresh, BLOCK) == NUM_BLOCKS
    assert level.stats().num_blocks == NUM_BLOCKS
    assert level.stats().num_corrupt == 0
    level.forget([Forget(Scope.FINGERPRINT, FINGERPRINT)])
    assert level.stats().num_blocks == 0


def test_a_user_of_shared_memory_may_die_at_any_line(tmp_path: Path) -> None:
    level = host(tmp_path)
    line = 1
    while dies_at_line(lambda: some_of_all(host, tmp_path), line, "tailrace/levels"):
        use_all(level, line)
        line += STRIDE
    assert line > 500
    assert host_path(BLOCK, tmp_path).stat().st_size == level.stats().max_bytes


def larger_host(directory: Path) -> HostLevel:
    return HostLevel(BLOCK, Layout(BLOCK, NUM_BLOCKS + 2).file_bytes, directory=directory)


def test_who_gives_shared_memory_another_size_may_die_at_any_line(tmp_path: Path) -> None:
    line = 1
    is_dead = True
    while is_dead:
        level = host(tmp_path)
        heads = chain(str(line), NUM_BLOCKS)
        assert level.put(stored(heads, BLOCK), version_of(level)) == NUM_BLOCKS
        level.close()
        is_dead = dies_at_line(lambda: larger_host(tmp_path).close(), line, "tailrace/levels")
        level = host(tmp_path)
        num_kept = sum(fetched(level, [head], BLOCK) for head in heads)
        assert num_kept in {0, NUM_BLOCKS}
        use_all(level, line)
        level.close()
        assert list(tmp_path.iterdir()) == [host_path(BLOCK, tmp_path)]
        line += STRIDE
    assert num_kept == NUM_BLOCKS
    assert line > 300


def test_a_server_may_die_at_any_line_of_what_it_does_on_disk(tmp_path: Path) -> None:
    line = 1
    while dies_at_line(lambda: some_of_all(disk, tmp_path), line, "tailrace/levels"):
        level = disk(tmp_path)
        use_all(level, line)
        level.close()
        line += STRIDE
    assert line > 300


def test_a_forget_that_is_in_the_log_is_carried_out_whoever_died_over_it(tmp_path: Path) -> None:
    level = host(tmp_path)
    head = chain("a", 1)
    forget = Forget(Scope.PREFIX, head[0].name)
    line = 1
    while True:
        level.put(stored(head, BLOCK), version_of(level))
        version = version_of(level)
        has_died = dies_at_line(lambda: host_forgets(tmp_path, forget), line, "tailrace/levels")
        assert fetched(level, head, BLOCK) == (version_of(level) == version)
        if not has_died:
            break
        line += 1 if SOAK else 23


def host_forgets(directory: Path, forget: Forget) -> None:
    host(directory).forget([forget])


def hammer(directory: Path, seed: int, tick: Callable[[], None], num_operations: int = sys.maxsize) -> None:
    level, draw = host(directory), random.Random(seed)
    for _ in range(num_operations):
        heads = chain(draw.choice(LABELS), draw.randint(1, 6))
        match draw.randrange(8):
            case 0:
                level.forget([Forget(draw.choice([Scope.BLOCK, Scope.PREFIX]), heads[-1].name)])
            case 1 | 2 | 3:
                with suppress(Outdated):
                    level.put(stored(heads, BLOCK), version_of(level))
            case _:
                fetched(level, heads, BLOCK)
        tick()
    assert level.stats().num_corrupt == 0


def test_users_that_are_killed_in_passing_leave_the_rest_as_it_should_be(tmp_path: Path) -> None:
    level = host(tmp_path)
    for seed in range(NUM_KILLS):
        kill_after(partial(hammer, tmp_path, seed), random.Random(seed).randint(0, 60))
        for label in LABELS:
            for head in chain(label, 6):
                fetched(level, [head], BLOCK)
    use_all(level, 0)


def test_users_at_work_at_the_same_time_find_right_blocks_only(tmp_path: Path) -> None:
    level = host(tmp_path)
    users = [forked(hammer, tmp_path, seed, lambda: None, NUM_TOGETHER) for seed in range(3)]
    for user in users:
        user.join()
    assert [user.exitcode for user in users] == [0, 0, 0]
    use_all(level, 0)
