"""Feeds damaged inputs to all that takes bytes from outside: `python -m tests.fuzz --inputs 1000000 --seed 7`.

Each target runs in a process of its own, with a bound on memory, and on time for each input. What crashes, hangs or
raises what it should not is kept in `tests/fuzz/corpus/`, where every later run begins with it, and ends the run.
"""

import argparse
import hashlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"
MAX_INPUT_S = 5.0
MORE_BYTES = 1 << 30  # of address space, than the process had at first


class Hung(BaseException):
    """An input took too long. No `except Exception` catches it."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all, shared out by what a target costs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", help="only those whose name has this in it")
    options = parser.parse_args(arguments)
    targets = [target for target in TARGETS if (options.target or "") in target.name]
    share = options.inputs / sum(1 / target.cost for target in targets)
    begin_s, num_failed, num_inputs = time.monotonic(), 0, 0
    for target in targets:
        num = max(1, round(share / target.cost))
        num_failed += not runs_well(target, num, options.seed)
        num_inputs += num
    print(f"{num_inputs:,} inputs in {time.monotonic() - begin_s:.0f} s, {num_failed} of {len(targets)} targets failed")
    return 1 if num_failed else 0


def runs_well(target: Target, num_inputs: int, seed: int) -> bool:
    """Run it in a child; False if that died, or said what was wrong."""
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "current-input"
        child = os.fork()
        if child == 0:
            _run_and_exit(target, num_inputs, seed, Path(folder), current)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return True
        if current.exists():
            print(f"{target.name}: status {status}; its input is {_keep(target, current.read_bytes())}")
        return False


def _run_and_exit(target: Target, num_inputs: int, seed: int, folder: Path, current: Path) -> None:
    code = 1
    try:
        code = _run(target, num_inputs, seed, folder, current)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # nothing of the parent's is this process's to clean up


def _keep(target: Target, data: bytes) -> Path:
    place = CORPUS / target.name.strip("/").replace("/", "-").replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    path = place / hashlib.blake2b(data, digest_size=8).hexdigest()
    path.write_bytes(data)
    return path


def known(target: Target) -> list[bytes]:
    """What has made it fail before."""
    place = CORPUS / target.name.strip("/").replace("/", "-").replace(" ", "-")
    return [path.read_bytes() for path in sorted(place.glob("*"))] if place.is_dir() else []


def _run(target: Target, num_inputs: int, seed: int, folder: Path, current: Path) -> int:
    seeds, take = target.prepare(folder)
    inputs = [*seeds, *known(target)]
    chance = random.Random(f"{target.name} {seed}")
    _bound_memory()
    signal.signal(signal.SIGALRM, _hang)
    begin_s = time.monotonic()
    with current.open("w+b", buffering=0) as note:
        for number in range(num_inputs):
            data = inputs[number] if number < len(inputs) else mutated(chance, inputs)
            if not _survives(take, data, note.fileno()):
                return 1
    elapsed_s = time.monotonic() - begin_s
    rate = num_inputs / max(elapsed_s, 1e-9)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{target.name:30} {num_inputs:9,} inputs {rate:9,.0f} a second, {peak} MiB at most", flush=True)
    return 0


def _survives(take: Callable[[bytes], None], data: bytes, note: int) -> bool:
    """The input is on record before it is tried: a crash leaves it behind."""
    os.pwrite(note, data, 0)
    os.ftruncate(note, len(data))
    signal.setitimer(signal.ITIMER_REAL, MAX_INPUT_S)
    try:
        take(data)
    except BaseException:
        traceback.print_exc()
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return True


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hung(f"an input took longer than {MAX_INPUT_S} s")


def _bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
