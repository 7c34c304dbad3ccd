"""What it costs to have memory for keys and values: all at start, in chunks as it is needed, or page by page.

    python -m benchmarks.kvcache.commit [--model MODEL] [--kv-memory BYTES] [--rounds 5] [--json]

Each figure is the median of fresh processes, one of each way after the other in every round (`first_request.py` says
what they do), with huge pages and without. The first request's time is from its arrival to its first token, with
nothing between it and the scheduler.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median

from benchmarks.kvcache.first_request import FirstRequest, Pages, Way
from benchmarks.serving.machine import describe_machine

__all__ = ["Setting", "compare", "table"]

Case = tuple[Way, Pages]


@dataclass(frozen=True, slots=True)
class Setting:
    """What all processes are told. `model` None is the default model."""

    model: str | None = None
    kv_memory_bytes: int = 1 << 30
    chunk_tokens: int = 128
    num_prompt_tokens: int = 512

    def arguments(self) -> list[str]:
        named = [] if self.model is None else ["--model", self.model]
        return [
            *named,
            *("--kv-memory", str(self.kv_memory_bytes)),
            *("--chunk-tokens", str(self.chunk_tokens)),
            *("--prompt", str(self.num_prompt_tokens)),
        ]


def compare(setting: Setting, num_rounds: int, all_pages: Sequence[Pages] = tuple(Pages)) -> dict[Case, FirstRequest]:
    """The median of each figure of each case."""
    cases = [(way, pages) for pages in all_pages for way in Way]
    runs: dict[Case, list[FirstRequest]] = {case: [] for case in cases}
    for number in range(num_rounds):
        for case in cases:
            sys.stderr.write(f"round {number + 1} of {num_rounds}: {case[0]}, {case[1]} pages\n")
            runs[case].append(_run(case, setting))
    return {case: _median(found) for case, found in runs.items()}


def _run(case: Case, setting: Setting) -> FirstRequest:
    command = [sys.executable, "-m", "benchmarks.kvcache.first_request", *case, *setting.arguments()]
    return FirstRequest(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def _median(runs: Sequence[FirstRequest]) -> FirstRequest:
    return FirstRequest(**{field.name: median([getattr(run, field.name) for run in runs]) for field in fields(runs[0])})


def table(found: dict[Case, FirstRequest]) -> str:
    """In Markdown."""
    lines = [
        "| pages | committed | start | faults | RSS | pool | 1st token | faults | 2nd token | pool | decode step |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (way, pages), run in found.items():
        cells = [
            pages,
            way,
            f"{run.start_s * 1e3:.1f} ms",
            f"{run.start_faults:,.0f}",
            f"{run.start_rss_bytes / 2**20:,.0f} MiB",
            f"{run.start_pool_bytes / 2**20:,.0f} MiB",
            f"{run.first_token_s * 1e3:,.1f} ms",
            f"{run.first_faults:,.0f}",
            f"{run.second_token_s * 1e3:,.1f} ms",
            f"{run.pool_bytes / 2**20:,.0f} MiB",
            f"{run.decode_s * 1e3:.2f} ms",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kvcache.commit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Setting()
    parser.add_argument("--model", help="as for `tailrace serve` [the default model]")
    parser.add_argument("--kv-memory", type=int, default=default.kv_memory_bytes, help="bytes [%(default)s]")
    parser.add_argument("--chunk-tokens", type=int, default=default.chunk_tokens, help="[%(default)s]")
    parser.add_argument("--prompt", type=int, default=default.num_prompt_tokens, help="tokens [%(default)s]")
    parser.add_argument("--rounds", type=int, default=5, help="[%(default)s]")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    setting = Setting(arguments.model, arguments.kv_memory, arguments.chunk_tokens, arguments.prompt)
    found = compare(setting, arguments.rounds)
    if arguments.json:
        rows = [{"committed": way, "pages": pages, **asdict(run)} for (way, pages), run in found.items()]
        figures = {"machine": describe_machine(), "setting": asdict(setting), "rows": rows}
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
        return
    print(f"{describe_machine()}\n{setting}, medians of {arguments.rounds}\n\n{table(found)}")


if __name__ == "__main__":
    main()
