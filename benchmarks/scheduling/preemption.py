"""What gold gains and bronze pays when running requests give way: the real engine on the default model.

    python -m benchmarks.scheduling.preemption [--places 8] [--gold 12] [--rounds 2] [--json]

Bronze requests with long answers fill all places, and twice as many wait. After every so many steps a gold request
comes. The same is done where nobody gives way (`max_yields` 0 for all classes), and both with KV memory for all who
run and with memory for a part of them, where streams take blocks from each other, too.

TTFT      of the gold requests, in milliseconds, and how many of them were in time
preempted and lost: bronze requests sent back for gold's deadlines and for want of blocks; their tokens computed twice,
          as a share of all tokens computed
gaps      between the tokens of bronze, in milliseconds; the longest is that of one who gave way
bronze    mean time to its last token, in seconds
steps     until all have their answers: what giving way costs all together, whatever else the machine does
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from benchmarks.scheduling.in_process import InProcess, Settled, say_progress
from benchmarks.serving.machine import describe_machine
from tailrace.bench.statistics import percentile
from tailrace.classes import ServiceClasses
from tailrace.config import EngineConfig
from tailrace.errors import EngineError
from tailrace.loading import load_model
from tailrace.measure.simulation.arrivals import Arrival
from tailrace.measure.simulation.outcome import Served
from tailrace.types import PreemptionCause
from tailrace.weights.load import open_checkpoint

__all__ = ["CONFIG", "MEMORIES", "Payment", "Scene", "measure_all", "measure_payment", "median_of", "never", "show"]

CONFIG = EngineConfig(kv_memory_bytes=512 << 20, max_model_tokens=2048)
MEMORIES = {"roomy": 1.5, "short": 0.6}  # KV memory, as a share of what all who run need in the end


@dataclass(frozen=True, slots=True)
class Scene:
    num_places: int = 8
    bronze_prompt_tokens: int = 64
    bronze_tokens: int = 256
    num_gold: int = 12
    gold_prompt_tokens: int = 128
    gold_tokens: int = 8
    every_steps: int = 25

    @property
    def num_bronze(self) -> int:
        return 3 * self.num_places

    def num_blocks(self, share: float, block_tokens: int) -> int:
        """As many as hold that share of what runs in the end, and the longest request at any rate."""
        one = -(-max(self.bronze_prompt_tokens + self.bronze_tokens, self.gold_prompt_tokens + 64) // block_tokens)
        return max(round(share * self.num_places * one), one + 1)


@dataclass(frozen=True, slots=True)
class Payment:
    gold_ttft_p50_ms: float
    gold_ttft_max_ms: float
    gold_in_time_share: float
    num_for_deadlines: int
    num_for_room: int
    lost_share: float
    bronze_gap_p95_ms: float
    bronze_gap_max_ms: float
    bronze_mean_s: float
    tokens_per_s: float  # of all answers
    num_steps: int


def never(classes: ServiceClasses) -> ServiceClasses:
    """Nobody gives way."""
    return replace(classes, classes=tuple(replace(each, max_yields=0) for each in classes))


def with_memory(settled: Settled, scene: Scene, share: float) -> Settled:
    """For an engine with less memory than the model was loaded for."""
    plan = settled.model.plan
    num_blocks = min(scene.num_blocks(share, plan.limits.block_tokens), plan.limits.num_blocks)
    plan = replace(plan, limits=replace(plan.limits, num_blocks=num_blocks))
    return replace(settled, model=replace(settled.model, plan=plan))


def with_classes(settled: Settled, classes: ServiceClasses) -> Settled:
    return replace(settled, config=replace(settled.config, classes=classes))


def measure_payment(settled: Settled, scene: Scene) -> Payment:
    """Once, in an engine of its own with an empty cache."""
    engine = InProcess(settled)
    bronze = [
        Arrival(f"bronze {number}", 0.0, scene.bronze_prompt_tokens, scene.bronze_tokens, "bronze")
        for number in range(scene.num_bronze)
    ]
    gold = [
        Arrival(f"gold {number}", 0.0, scene.gold_prompt_tokens, scene.gold_tokens, "gold")
        for number in range(scene.num_gold)
    ]
    engine.begin([*bronze, *gold])
    for arrival in bronze:
        engine.submit(arrival)
    for arrival in gold:
        _take_steps(engine, scene.every_steps)
        _come_now(engine, arrival)
    while not all(one.has_ended for one in engine.outcome.served.values()):
        engine.step()
    return _payment(engine, settled.config.classes)


def _take_steps(engine: InProcess, num_steps: int) -> None:
    for _ in range(num_steps):
        engine.step()


def _come_now(engine: InProcess, arrival: Arrival) -> None:
    arrival = replace(arrival, at_s=engine.now_s)
    engine.outcome.served[arrival.request_id] = Served(arrival)
    engine.submit(arrival)


def _payment(engine: InProcess, classes: ServiceClasses) -> Payment:
    served = list(engine.outcome.served.values())
    gold, bronze = _of(served, "gold"), _of(served, "bronze")
    ttfts_s = [one.ttft_s for one in gold if one.ttft_s is not None]
    if not ttfts_s or not all(one.is_complete for one in bronze):
        raise EngineError("requests were refused: there is nothing to compare")
    last = engine.steps[-1]
    target_s = classes.named("gold").ttft_s
    gaps_ms = sorted(1e3 * (after - before) for one in bronze for before, after in pairwise(one.token_s))
    preempted = {
        cause: sum(count.num_requests for count in last.preemptions if count.cause is cause)
        for cause in PreemptionCause
    }
    num_lost = sum(count.num_lost_tokens for count in last.preemptions)
    return Payment(
        gold_ttft_p50_ms=1e3 * median(ttfts_s),
        gold_ttft_max_ms=1e3 * max(ttfts_s),
        gold_in_time_share=sum(ttft_s <= target_s for ttft_s in ttfts_s) / len(gold),
        num_for_deadlines=preempted[PreemptionCause.DEADLINE],
        num_for_room=preempted[PreemptionCause.ROOM],
        lost_share=num_lost / sum(step.num_tokens for step in engine.steps),
        bronze_gap_p95_ms=percentile(gaps_ms, 95),
        bronze_gap_max_ms=gaps_ms[-1],
        bronze_mean_s=fmean(one.token_s[-1] for one in bronze),
        tokens_per_s=sum(len(one.token_s) for one in served) / max(one.token_s[-1] for one in served if one.token_s),
        num_steps=len(engine.steps),
    )


def _of(served: Iterable[Served], class_name: str) -> list[Served]:
    return [one for one in served if one.arrival.class_name == class_name]


def measure_all(settled: Settled, scene: Scene, num_rounds: int) -> dict[str, dict[str, list[Payment]]]:
    """For each size of memory each way in turn, in each round. The model is one for that many places.

    Before the first, a few requests touch memory and load code; who begins changes from round to round.
    """
    measure_payment(settled, replace(scene, bronze_tokens=8, num_gold=1, every_steps=1))
    ways = {"give way": settled, "never": with_classes(settled, never(settled.config.classes))}
    found: dict[str, dict[str, list[Payment]]] = {memory: {way: [] for way in ways} for memory in MEMORIES}
    for number in range(num_rounds):
        for memory, share in MEMORIES.items():
            for way, its_own in list(ways.items())[:: 1 if number % 2 == 0 else -1]:
                say_progress(f"round {number + 1}")(f"{memory} memory, {way}")
                found[memory][way].append(measure_payment(with_memory(its_own, scene, share), scene))
    return found


def median_of(rounds: Sequence[Payment]) -> dict[str, float]:
    return {name: median(getattr(one, name) for one in rounds) for name in asdict(rounds[0])}


def show(found: Mapping[str, Mapping[str, Sequence[Payment]]], scene: Scene) -> None:
    print(describe_machine())
    print(f"{scene.num_bronze} bronze in {scene.num_places} places, {scene.num_gold} gold; medians of the rounds")
    print(
        f"{'memory':8} {'':9} {'gold TTFT P50 / max':>20} {'in time':>8} {'deadlines':>10} {'room':>5} {'lost':>6} "
        f"{'bronze gap P95 / max':>21} {'mean s':>7} {'tokens/s':>9} {'steps':>6}"
    )
    for memory, ways in found.items():
        for way, rounds in ways.items():
            one = median_of(rounds)
            ttfts = f"{one['gold_ttft_p50_ms']:.0f} / {one['gold_ttft_max_ms']:.0f}"
            gaps = f"{one['bronze_gap_p95_ms']:.1f} / {one['bronze_gap_max_ms']:.0f}"
            print(
                f"{memory:8} {way:9} {ttfts:>20} {one['gold_in_time_share']:8.0%} {one['num_for_deadlines']:10.0f} "
                f"{one['num_for_room']:5.0f} {one['lost_share']:6.1%} {gaps:>21} {one['bronze_mean_s']:7.2f} "
                f"{one['tokens_per_s']:9.0f} {one['num_steps']:6.0f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scheduling.preemption",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="another than the default model")
    parser.add_argument("--places", type=int, default=8, help="requests that run at once [%(default)s]")
    parser.add_argument("--gold", type=int, default=12, help="how many come [%(default)s]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    scene = Scene(num_places=arguments.places, num_gold=arguments.gold)
    config = replace(CONFIG, max_running=scene.num_places)
    settled = Settled.on(load_model(open_checkpoint(arguments.model or "default"), config), config)
    found = measure_all(settled, scene, arguments.rounds)
    if arguments.json:
        figures = {
            memory: {
                way: {"median": median_of(rounds), "rounds": [asdict(one) for one in rounds]}
                for way, rounds in ways.items()
            }
            for memory, ways in found.items()
        }
        scenery = {"machine": describe_machine(), "scene": asdict(scene)}
        sys.stdout.write(json.dumps(scenery | {"memory": figures}, indent=2) + "\n")
    else:
        show(found, scene)


if __name__ == "__main__":
    main()
