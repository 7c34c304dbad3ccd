"""Measures a model's tokenizer: CPU time to build it, and to encode texts of several lengths.

The lengths show up to where encoding is short enough to be done on the event loop. The longest is encoded beside a
thread that does nothing but look at the clock: its worst gap is how long streams stand still meanwhile.

    python -m benchmarks.text.encoding MODEL [--rounds N] [--json]

MODEL is a GGUF file or a Hugging Face directory.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.serving.machine import describe_machine
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.load import open_checkpoint

_LENGTHS = (100, 1000, 4096, 32_768)
_LONGEST = 1_000_000


@dataclass(frozen=True)
class Figures:
    """`encode_ms` is by length of the text in characters; `gap_ms` is what another thread has to wait at worst."""

    machine: str
    vocabulary: int
    build_ms: float
    encode_ms: dict[int, float]
    gap_ms: float


def prose(num_chars: int) -> str:
    """The documentation of this repository."""
    text = Path("README.md").read_text()
    return (text * (num_chars // len(text) + 1))[:num_chars]


def quickest_ms(run: Callable[[], object], rounds: int) -> float:
    times_s = []
    for _ in range(rounds):
        started_s = time.process_time()
        run()
        times_s.append(time.process_time() - started_s)
    return round(1e3 * min(times_s), 3)


def worst_gap_ms(run: Callable[[], object]) -> float:
    """The longest time for which another thread does not get to run."""
    worker = threading.Thread(target=run)
    last_s = time.perf_counter()
    worst_s = 0.0
    worker.start()
    while worker.is_alive():
        time.sleep(0)
        now_s = time.perf_counter()
        worst_s = max(worst_s, now_s - last_s)
        last_s = now_s
    return round(1e3 * worst_s, 3)


def measure(model: str, rounds: int) -> Figures:
    source = open_checkpoint(model).tokenizer
    tokenizer = Tokenizer.from_source(source)
    encode = partial(tokenizer.encode, allow_control=False)
    return Figures(
        describe_machine(),
        tokenizer.vocab_size,
        quickest_ms(partial(Tokenizer.from_source, source), rounds),
        {n: quickest_ms(partial(encode, prose(n)), rounds) for n in _LENGTHS},
        worst_gap_ms(partial(encode, prose(_LONGEST))),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.model, arguments.rounds)
    if arguments.json:
        print(json.dumps(asdict(figures)))
        return
    print(figures.machine)
    print(f"build {figures.vocabulary} tokens {figures.build_ms:10.1f} ms")
    for num_chars, cost_ms in figures.encode_ms.items():
        print(f"encode {num_chars:6} characters {cost_ms:9.3f} ms")
    print(f"worst gap of another thread {figures.gap_ms:9.3f} ms, at {_LONGEST} characters")


if __name__ == "__main__":
    main()
