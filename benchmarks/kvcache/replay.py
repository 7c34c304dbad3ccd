"""What placement, compaction and reservation of KV blocks buy, on recorded traffic.

    python -m benchmarks.kvcache.replay --trace conversations.csv [--requests N] [--blocks N] [--json]

The real scheduler and cache without a device: a step takes a modelled time. `none` takes free blocks wherever they are;
`fullest first` fills up chunks that are in use; `placement` does so by groups of requests that live about as long, and
`strict` lets no two groups share a chunk while there is memory to be had.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.kvcache.replaying import POLICIES, Machine, Outcome, replay
from benchmarks.kvcache.traces import Scale, read_trace
from benchmarks.serving.machine import describe_machine

COLUMNS = (
    "resident MiB",
    "peak",
    "fragmentation",
    "peak",
    "moves",
    "commits",
    "preempted",
    "evicted",
    "hits",
    "TTFT p99",
)
NAME_WIDTH = 18


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, required=True, metavar="FILE", help="CSV or JSON lines")
    parser.add_argument("--requests", type=int, metavar="N", help="only the first of the trace")
    parser.add_argument("--shrink", type=int, default=16, help="lengths are divided by so much (default %(default)s)")
    parser.add_argument("--speed", type=float, default=1.0, help="times are divided by so much (default %(default)s)")
    parser.add_argument("--blocks", type=int, default=4096, help="of the KV pool (default %(default)s)")
    parser.add_argument("--ttl", type=float, default=3600.0, help="seconds a block is cached (default %(default)s)")
    parser.add_argument("--step-ms", type=float, default=8.0, help="that a step takes (default %(default)s)")
    parser.add_argument("--token-ms", type=float, default=0.4, help="and each of its tokens (default %(default)s)")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="only this; may be given several times")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    arguments = parse_arguments(words)
    machine = Machine(
        arguments.blocks,
        step_s=arguments.step_ms / 1e3,
        token_s=arguments.token_ms / 1e3,
        ttl_s=arguments.ttl,
    )
    scale = Scale(arguments.shrink, arguments.speed, min(machine.max_model_tokens, machine.num_tokens))
    trace = read_trace(arguments.trace, scale, arguments.requests)
    if not trace:
        sys.exit(f"{arguments.trace} has no request of at most {scale.max_tokens} tokens: give more --blocks")
    outcomes: dict[str, Outcome] = {}
    for name in arguments.policy or POLICIES:
        sys.stderr.write(f"{name}\n")
        outcomes[name] = replay(trace, machine, POLICIES[name])
    if arguments.json:
        report = {"machine": describe_machine(), "model": asdict(machine), "scale": asdict(scale)}
        json.dump(report | {"policies": {name: asdict(one) for name, one in outcomes.items()}}, sys.stdout, indent=1)
        print()
    else:
        print(f"{arguments.trace.name}: {len(trace)} requests, lengths / {scale.shrink}, times / {scale.speed:g}")
        print(table(outcomes))


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Means over time, but for peaks and counts."""
    lines = ["".join([f"{'':{NAME_WIDTH}}", *(f"{column:>14}" for column in COLUMNS)])]
    for name, one in outcomes.items():
        cells = (
            f"{one.mean_resident_bytes / 2**20:.1f}",
            f"{one.peak_resident_bytes / 2**20:.1f}",
            f"{one.mean_fragmentation:.1%}",
            f"{one.peak_fragmentation:.1%}",
            f"{one.num_moved}",
            f"{one.num_commits}",
            f"{one.num_preempted}",
            f"{one.num_evicted}",
            f"{one.hit_rate:.1%}",
            f"{one.p99_first_token_s:.2f} s",
        )
        lines.append("".join([f"{name:{NAME_WIDTH}}", *(f"{cell:>14}" for cell in cells)]))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
