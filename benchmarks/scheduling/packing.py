"""Whether requests of like length should share a step: buckets of length against a mixture, with the same rows in all.

    python -m benchmarks.scheduling.packing [--rounds 30] [--threads 2] [--model MODEL] [--json]

Each case has two steps of as many tokens each. Packed, one has the short requests and the other the long ones, as
log2 buckets would put them; mixed, both have half of either. What both steps take together is compared, in turns: the
ratio is packed / mixed, its spread the quartiles of the rounds. Below 1, buckets help. `same` compares mixed steps with
mixed steps: what differs from 1 there is the machine.

A shape that is not here: `tailrace bench synth deepseek-v2-lite --gguf FILE`, then `--model FILE`.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles

from benchmarks.scheduling.real_steps import Part, RealSteps, Room, Shape
from benchmarks.serving.machine import describe_machine
from tailrace.config import EngineConfig
from tailrace.loading import load_model
from tailrace.weights.load import open_checkpoint

KV_MEMORY_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """The same parts in two ways, two steps each."""

    name: str
    packed: tuple[Shape, Shape]
    mixed: tuple[Shape, Shape]


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    packed_ms: float
    mixed_ms: float
    ratio: float  # median of the rounds
    low: float  # quartiles
    high: float


def decode(count: int, short: int, long: int) -> Case:
    """Streams, half of them behind short contexts and half behind long ones."""
    shorts, longs = [Part(short, 1, True)] * count, [Part(long, 1, True)] * count
    return Case(f"{2 * count} streams behind {short} or {long}", (shorts, longs), _halves(shorts, longs))


def prompts(num_tokens: int, short: int, long: int) -> Case:
    """Prompts, as many tokens of short ones as of long ones."""
    shorts = [Part(0, short, True)] * (num_tokens // short)
    longs = [Part(0, long, True)] * (num_tokens // long)
    return Case(f"prompts of {short} or {long}, {num_tokens} a step", (shorts, longs), _halves(shorts, longs))


def _halves(shorts: Sequence[Part], longs: Sequence[Part]) -> tuple[Shape, Shape]:
    """Two steps of half the short and half the long ones, the second in another order of the two."""
    first = [*shorts[::2], *longs[::2]]
    return first, [*longs[1::2], *shorts[1::2]]


def all_cases(room: Room) -> list[Case]:
    """Those that the model has room for, and before them mixed steps against themselves."""
    found = [
        decode(8, 64, 1024),
        decode(16, 64, 512),
        decode(2, 64, 1920),
        prompts(256, 16, 128),
        prompts(512, 32, 256),
    ]
    found = [case for case in found if all(room.holds(shape) for shape in (*case.packed, *case.mixed))]
    return [Case("same", found[0].mixed, found[0].mixed), *found]


def compare(steps: RealSteps, case: Case, num_rounds: int) -> Finding:
    """Both ways in turns, and each of them first every other time."""
    packed_s: list[float] = []
    mixed_s: list[float] = []
    for number in range(num_rounds + 1):
        ways = [(case.packed, packed_s), (case.mixed, mixed_s)]
        for shapes, seconds in ways if number % 2 else reversed(ways):
            seconds.append(sum(steps.run(shape)[1] for shape in shapes))
    packed_s, mixed_s = packed_s[1:], mixed_s[1:]  # the first round warms up
    ratios = [packed / mixed for packed, mixed in zip(packed_s, mixed_s, strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    return Finding(case.name, 1e3 * median(packed_s), 1e3 * median(mixed_s), middle, low, high)


def show(findings: Sequence[Finding]) -> None:
    print(f"{'two steps of':38} {'packed ms':>10} {'mixed ms':>10} {'packed / mixed':>16}")
    for each in findings:
        ratio = f"{each.ratio:.3f} ({each.low:.3f} to {each.high:.3f})"
        print(f"{each.name:38} {each.packed_ms:10.2f} {each.mixed_ms:10.2f}   {ratio}")


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.packing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30, help="of each case [%(default)s]")
    parser.add_argument("--threads", type=int, default=None, help="[as the server would]")
    parser.add_argument("--model", default="default")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(words)
    if arguments.rounds < 2:
        parser.error("there must be at least 2 rounds")
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(words)
    checkpoint = open_checkpoint(arguments.model)
    model = load_model(checkpoint, EngineConfig(kv_memory_bytes=KV_MEMORY_BYTES, num_threads=arguments.threads))
    steps = RealSteps(model)
    findings = [compare(steps, case, arguments.rounds) for case in all_cases(steps.room)]
    model.executable.close()
    if arguments.json:
        about = {"machine": describe_machine(), "model": checkpoint.name, "rounds": arguments.rounds}
        print(json.dumps(about | {"cases": [asdict(each) for each in findings]}, indent=1))
    else:
        print(f"{describe_machine()}; {checkpoint.name}; {arguments.rounds} rounds")
        show(findings)


if __name__ == "__main__":
    main()
