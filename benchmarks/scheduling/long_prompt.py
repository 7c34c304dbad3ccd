"""What a long prompt does to the streams beside it, and they to it: the real engine on the default model.

    python -m benchmarks.scheduling.long_prompt [--prompt 6000] [--streams 16] [--rounds 2] [--json]

Streams run; a long prompt arrives; they go on until its first token. `during` are the gaps between tokens of the
streams meanwhile, `without` those between the same tokens of the same streams when no prompt comes: streams become
slower by themselves as they grow. The prompt's TTFT is set beside that of as long a prompt alone in the engine. The
scheduler as the server runs it is compared with budgets that are fixed: so many tokens in each step, decodes included,
whatever the streams were promised.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import median

from benchmarks.scheduling.in_process import InProcess, Settled, say_progress
from benchmarks.serving.machine import describe_machine
from tailrace.bench.statistics import percentile
from tailrace.config import EngineConfig
from tailrace.errors import EngineError
from tailrace.loading import load_model
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.models.registry import build_program
from tailrace.ops.load import load_backend
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint

__all__ = ["FIXED_BUDGETS", "Intrusion", "Scene", "engine_config", "measure_all", "measure_intrusion", "median_of"]

FIXED_BUDGETS = (512, 2048)
DEFAULT = EngineConfig()
PROMPT_ID = "long prompt"


@dataclass(frozen=True, slots=True)
class Scene:
    """`quiet_steps` before the prompt; streams have short prompts."""

    num_streams: int = 16
    prompt_tokens: int = 6000
    stream_prompt_tokens: int = 32
    quiet_steps: int = 150

    @property
    def stream_tokens(self) -> int:
        """Enough that no stream ends before the prompt's first token, were it computed a few tokens a step."""
        return self.quiet_steps + self.prompt_tokens // 4

    @property
    def max_model_tokens(self) -> int:
        return max(self.prompt_tokens + 2, self.stream_prompt_tokens + self.stream_tokens)

    @property
    def kv_tokens(self) -> int:
        return 2 * self.prompt_tokens + self.num_streams * (self.stream_prompt_tokens + self.stream_tokens + 64)


@dataclass(frozen=True, slots=True)
class Intrusion:
    """Milliseconds; `gaps` are of all streams together."""

    without_p50_ms: float
    without_p99_ms: float
    during_p50_ms: float
    during_p99_ms: float
    longest_gap_ms: float
    ttft_ms: float
    ttft_alone_ms: float
    num_steps: int  # from the prompt's arrival to its first token

    @property
    def p99_ratio(self) -> float:
        return self.during_p99_ms / self.without_p99_ms

    @property
    def ttft_ratio(self) -> float:
        return self.ttft_ms / self.ttft_alone_ms


def engine_config(checkpoint: Checkpoint, scene: Scene) -> EngineConfig:
    """With room for the largest fixed budget, and for all that runs."""
    config = EngineConfig(
        budget_tokens=max(*FIXED_BUDGETS, DEFAULT.budget_tokens), max_model_tokens=scene.max_model_tokens
    )
    backend = load_backend(config.backend, config.kv_cache_dtype)
    block_bytes = backend.kv_bytes_per_block(build_program(checkpoint.config), config.block_tokens)
    return replace(config, kv_memory_bytes=block_bytes * -(-scene.kv_tokens // config.block_tokens))


def with_budget(settled: Settled, budget_tokens: int, chunk_tokens: int | None) -> Settled:
    """For an engine whose steps are smaller than the largest that the model was loaded for."""
    plan = settled.model.plan
    plan = replace(plan, limits=replace(plan.limits, max_tokens=budget_tokens))
    config = replace(settled.config, budget_tokens=budget_tokens, chunk_tokens=chunk_tokens)
    return replace(settled, model=replace(settled.model, plan=plan), config=config)


def measure_intrusion(settled: Settled, scene: Scene) -> Intrusion:
    """Once: the prompt alone, then beside streams. Each has an engine of its own, with an empty cache."""
    alone = InProcess(settled)
    alone.begin([_prompt(scene, 0.0)])
    ttft_alone_s, _ = _first_token_s(alone, scene)
    engine, token_s = _streaming(settled, scene)
    first = min(map(len, token_s)) - 1
    ttft_s, num_steps = _first_token_s(engine, scene)
    end = min(map(len, token_s))
    during = _gaps_ms([times[first:end] for times in token_s])
    engine, token_s = _streaming(settled, scene)
    while min(map(len, token_s)) < end:
        engine.step()
    without = _gaps_ms([times[first:end] for times in token_s])
    return _intrusion(without, during, ttft_s, ttft_alone_s, num_steps)


def _streaming(settled: Settled, scene: Scene) -> tuple[InProcess, list[list[float]]]:
    """An engine whose streams have run for a while, and when each of them got its tokens so far."""
    engine = InProcess(settled)
    streams = [
        Arrival(f"stream {number}", 0.0, scene.stream_prompt_tokens, scene.stream_tokens)
        for number in range(scene.num_streams)
    ]
    engine.begin([*streams, _prompt(scene, 0.0)])
    for stream in streams:
        engine.submit(stream)
    token_s = [engine.outcome.served[stream.request_id].token_s for stream in streams]
    while min(map(len, token_s)) <= scene.quiet_steps:
        engine.step()
    return engine, token_s


def _prompt(scene: Scene, at_s: float) -> Arrival:
    return Arrival(PROMPT_ID, at_s, scene.prompt_tokens, 1)


def _first_token_s(engine: InProcess, scene: Scene) -> tuple[float, int]:
    """The prompt arrives now: when its token comes, and in how many steps."""
    arrived_s = engine.now_s
    engine.submit(_prompt(scene, arrived_s))
    served, num_steps = engine.outcome.served[PROMPT_ID], 0
    while not served.has_ended:
        num_steps += engine.step()
    if not served.token_s:
        raise EngineError(f"the prompt was not computed: it was refused for {served.refused_for}")
    return served.token_s[0] - arrived_s, num_steps


def _gaps_ms(token_s: Sequence[Sequence[float]]) -> list[float]:
    return sorted(1e3 * (after - before) for times in token_s for before, after in pairwise(times))


def _intrusion(
    without: Sequence[float], during: Sequence[float], ttft_s: float, ttft_alone_s: float, num_steps: int
) -> Intrusion:
    return Intrusion(
        without_p50_ms=percentile(without, 50),
        without_p99_ms=percentile(without, 99),
        during_p50_ms=percentile(during, 50),
        during_p99_ms=percentile(during, 99),
        longest_gap_ms=during[-1],
        ttft_ms=1e3 * ttft_s,
        ttft_alone_ms=1e3 * ttft_alone_s,
        num_steps=num_steps,
    )


def median_of(rounds: Sequence[Intrusion]) -> dict[str, float]:
    """Medians of each figure, and of the two ratios."""
    names = [*asdict(rounds[0]), "p99_ratio", "ttft_ratio"]
    return {name: median(getattr(one, name) for one in rounds) for name in names}


def measure_all(settled: Settled, scene: Scene, num_rounds: int) -> dict[str, list[Intrusion]]:
    """Each way in turn, in each round."""
    ways = {"as served": with_budget(settled, DEFAULT.budget_tokens, DEFAULT.chunk_tokens)} | {
        f"fixed {budget}": with_budget(settled, budget, budget) for budget in FIXED_BUDGETS
    }
    found: dict[str, list[Intrusion]] = {name: [] for name in ways}
    for number in range(num_rounds):
        for name, way in ways.items():
            say_progress(f"round {number + 1}")(name)
            found[name].append(measure_intrusion(way, scene))
    return found


def show(found: Mapping[str, Sequence[Intrusion]], scene: Scene) -> None:
    print(describe_machine())
    print(
        f"{scene.num_streams} streams, a prompt of {scene.prompt_tokens:,} tokens; milliseconds, medians of the rounds"
    )
    gaps = f"{'gap P50/P99 without':>20} {'during':>16} {'longest':>8} {'P99 x':>6}"
    print(f"{'':10} {gaps} {'TTFT':>8} {'alone':>7} {'x':>5}")
    for name, rounds in found.items():
        one = median_of(rounds)
        without = f"{one['without_p50_ms']:.1f} / {one['without_p99_ms']:.1f}"
        during = f"{one['during_p50_ms']:.1f} / {one['during_p99_ms']:.1f}"
        ratios = f"{one['ttft_ms']:8.0f} {one['ttft_alone_ms']:7.0f} {one['ttft_ratio']:5.2f}"
        print(f"{name:10} {without:>20} {during:>16} {one['longest_gap_ms']:8.1f} {one['p99_ratio']:6.2f} {ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.long_prompt",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="another than the default model")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=6000, help="tokens [%(default)s]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    scene = Scene(arguments.streams, arguments.prompt)
    checkpoint = open_checkpoint(arguments.model or "default")
    config = engine_config(checkpoint, scene)
    found = measure_all(Settled.on(load_model(checkpoint, config), config), scene, arguments.rounds)
    if arguments.json:
        figures = {
            name: {"median": median_of(rounds), "rounds": [asdict(one) for one in rounds]}
            for name, rounds in found.items()
        }
        scenery = {"machine": describe_machine(), "scene": asdict(scene)}
        sys.stdout.write(json.dumps(scenery | {"ways": figures}, indent=2) + "\n")
    else:
        show(found, scene)


if __name__ == "__main__":
    main()
