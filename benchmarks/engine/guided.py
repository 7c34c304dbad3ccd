"""What following a grammar costs a stream: the time between tokens, with and without, by turns.

    python -m benchmarks.engine.guided --streams 1 8 --rounds 5

In process, on the default model, in steady decode, far from max_tokens: what an end in reach costs near them is in
`benchmarks/guides/`. `waited` is how long draws waited for masks, for each token.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.engine.steps import CONFIG, PROMPT_TOKENS
from benchmarks.serving.machine import describe_machine
from tailrace.app import build_engine, load_model
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.records import Record, StepRecord
from tailrace.types import Guide, Request, SamplingParams
from tailrace.weights.load import open_checkpoint

_FAR_TOKENS = 1000  # from what is measured to max_tokens

# None ends before what the model would never write.
GUIDES = {
    "free": None,
    "text": Guide('start: /(.|\\n)*/ "@@END@@"'),  # most tokens are allowed
    "strings": Guide('start: (/"[a-zA-Z ,.]*"/ ",\\n")* "@@END@@"'),
}


@dataclass(frozen=True, slots=True)
class Spell:
    """Some steps in which every stream got a token."""

    periods_s: Sequence[float]
    waited_s: float  # for each token


class Bench:
    """One engine for all spells: its vocabulary of grammars is made once."""

    def __init__(self) -> None:
        model = load_model(open_checkpoint("default"), CONFIG)
        self._steps: list[StepRecord] = []
        self._masks = model.executable.masks
        self._intake = Intake(IntakeConfig(CONFIG.max_queued, CONFIG.max_queued_tokens, model.limits.max_model_tokens))
        self._engine = build_engine(model, CONFIG, self._intake, lambda _: None, lambda _: None, emit=self._emit)

    def _emit(self, record: Record) -> None:
        if isinstance(record, StepRecord):
            self._steps.append(record)

    def measure(self, guide: Guide | None, num_streams: int, num_tokens: int) -> Spell:
        """At least so many steps in which all streams run. Raises ValueError when there were not."""
        self._steps.clear()
        before_s = self._masks.waited_s
        sampling = SamplingParams(num_tokens + _FAR_TOKENS, temperature=0.0, ignore_eos=True)
        for number in range(1, num_streams + 1):
            prompt = range(1000 * number, 1000 * number + PROMPT_TOKENS)
            self._intake.submit(Request(f"r{number}", prompt, sampling, guide=guide))
        while self._intake.request_ids:
            if not (self._engine.drain_intake() and self._engine.step()):
                self._intake.wait(1.0)
            if len(self._steps) % 32 == 0 and len(self._steady_s(num_streams)) >= num_tokens:
                waited_s = self._masks.waited_s - before_s
                break
        else:
            raise ValueError(f"{num_streams} streams did not run together for {num_tokens} steps")
        for request_id in self._intake.request_ids:
            self._intake.abort(request_id)
        self._engine.drain_intake()
        return Spell(self._steady_s(num_streams), waited_s / sum(step.num_sampled for step in self._steps))

    def _steady_s(self, num_streams: int) -> list[float]:
        """From one step to the next, where both had a token of every stream."""
        return [
            following.started_s - step.started_s
            for step, following in pairwise(self._steps)
            if step.num_tokens == step.num_sampled == following.num_tokens == num_streams
        ]

    def close(self) -> None:
        self._intake.close()
        self._engine.run()


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine.guided", description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100, help="of each stream in each round")
    arguments = parser.parse_args(words)
    print(describe_machine())
    bench = Bench()
    for guide in GUIDES.values():
        bench.measure(guide, 1, 20)
    for num_streams in arguments.streams:
        spells: dict[str, list[Spell]] = {name: [] for name in GUIDES}
        for _ in range(arguments.rounds):
            for name, guide in GUIDES.items():
                spells[name].append(bench.measure(guide, num_streams, arguments.tokens))
        free_s = median(period for spell in spells["free"] for period in spell.periods_s)
        for name, of_name in spells.items():
            period_s = median(period for spell in of_name for period in spell.periods_s)
            waited_s = median(spell.waited_s for spell in of_name)
            print(
                f"{num_streams} streams, {name}: {period_s * 1e3:.3f} ms between tokens, "
                f"{period_s / free_s - 1:+.1%}; waited {waited_s * 1e6:.1f} us"
            )
    bench.close()


if __name__ == "__main__":
    main()
