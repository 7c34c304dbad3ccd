"""How much of prompts a step takes in, and how many requests run: what the model foresees, corrected by feedback."""

import math
from collections.abc import Sequence

from tailrace.scheduler.budget import LEAST_TOKENS, PendingPrompt, StepBudget
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.controller import Control, Controller, ControllerConfig
from tailrace.scheduler.draft import StepDraft
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.prompts import Prompts
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.scheduler.targets import Targets

__all__ = ["Pacer"]

_TAUGHT_ALIKE = 4  # so many steps of a size in a row teach the model, and then one in so many
_NOMINAL_RATE = 1_000.0  # tokens of prompts a second, before anything was measured


class Pacer:
    """Asked while a step is planned, told when it is over. Keeps the step-time model and the controller.

    With a fixed `chunk_tokens` nothing is foreseen and nothing corrected: a step takes in as many, and all places are
    used.
    """

    def __init__(self, config: SchedulerConfig, step_times: StepTimeModel | None = None) -> None:
        self.step_times = step_times or StepTimeModel(config.budget_tokens)
        self._chunk_tokens = config.chunk_tokens
        most_rows = min(config.max_running, config.budget_tokens)
        self.targets = Targets(config.classes, config.target_scale, self.step_times, most_rows)
        self._budget = StepBudget(self.step_times)
        self._controller = Controller(ControllerConfig.up_to(config.max_running))
        self.control = Control(config.max_running, 1.0)
        self.predicted_s: float | None = None  # of the step that was planned last
        self.num_streams = 0  # in it
        self.is_at_limit = True  # whether it takes in as much of prompts as it may at the most
        self._decode = StepSize(0, 0, 0)  # its part of these streams
        self._fixed_share = 1.0  # of its time, theirs and that of the least of prompts, which no pace takes away
        self._tightest_itl_s = math.inf
        self._num_tokens = 0  # of the latest step
        self._num_alike = 0  # before it, in a row, had as many
        self._ended_s: float | None = None  # when the step before gave streams their tokens

    def alone_rate(self, live: LiveRequest) -> float | None:
        """Tokens a second of its prompt, if it has the machine for itself; None while too little is known."""
        took_s = self.alone_s(live)
        return live.work_tokens / took_s if self.step_times.prefill_rate is not None and took_s > 0.0 else None

    def alone_s(self, live: LiveRequest) -> float:
        """What is to be computed before the first token of a request takes, if nobody is beside it."""
        num_tokens = live.work_tokens
        took_s = self.step_times.prompt_s(num_tokens, len(live.token_ids) - num_tokens)
        return num_tokens / _NOMINAL_RATE if took_s is None else took_s

    @property
    def seconds_per_token(self) -> float:
        return 1.0 / (self.step_times.prefill_rate or _NOMINAL_RATE)

    def steer(self, now_s: float, num_running: int, free_share: float) -> None:
        """Look at what the gaps and the free share of KV memory call for."""
        self.targets.follow(now_s)
        if self._chunk_tokens is None:
            self.control = self._controller.control(now_s, num_running, free_share)

    def prompt_tokens(self, draft: StepDraft, tightest_itl_s: float, prompts: Prompts, now_s: float) -> int:
        """How many tokens of prompts the step may take in besides the decodes that it has so far.

        `tightest_itl_s` is the least target of those that decode.
        """
        self.num_streams, self._tightest_itl_s, self._decode = len(draft.lives), tightest_itl_s, draft.size
        self.is_at_limit = True
        if not draft.lives:
            return draft.budget_left
        if self._chunk_tokens is not None:
            return min(draft.budget_left, self._chunk_tokens)
        pending = prompts.pending(self.alone_s)
        return self._foresee(prompts, pending, draft.budget_left, now_s) if pending else draft.budget_left

    def _foresee(self, prompts: Prompts, pending: Sequence[PendingPrompt], most: int, now_s: float) -> int:
        budget, decode, read_per_token = self._budget, self._decode, prompts.read_per_token
        is_brisk = any(prompt.is_short for prompt in pending)
        marks = budget.marks(decode, self._tightest_itl_s, self.control.pace, is_brisk=is_brisk)
        target_s = budget.target_s(decode, marks, pending, now_s, read_per_token=read_per_token, most=most)
        self.is_at_limit = target_s > marks.steady_s or self._is_late(pending, now_s)
        return budget.prefill_tokens(decode, target_s=target_s, read_per_token=read_per_token, most=most)

    def _is_late(self, pending: Sequence[PendingPrompt], now_s: float) -> bool:
        """Whether somebody would be late at the highest pace, too, so that a higher one is no use."""
        token_s = self.seconds_per_token
        return any(now_s + prompt.num_tokens * token_s > prompt.deadline_s for prompt in pending)

    def planned(self, whole: StepSize) -> None:
        """A step is about to run."""
        predicted_s = self.predicted_s = self.step_times.predict(whole)
        self._fixed_share = 1.0
        if predicted_s and whole.num_tokens > self._decode.num_tokens + LEAST_TOKENS:
            least = self._decode._replace(num_tokens=self._decode.num_tokens + LEAST_TOKENS)
            self._fixed_share = min((self.step_times.predict(least) or 0.0) / predicted_s, 1.0)

    def waited(self) -> None:
        """That step is over, and it has waited for something that later ones have."""
        self._ended_s = None

    def stepped(self, whole: StepSize, took_s: float, now_s: float) -> None:
        """That step is over, `took_s` after it was planned.

        Of steps that go on alike, some teach as much as all.
        """
        self._num_alike = self._num_alike + 1 if whole.num_tokens == self._num_tokens else 0
        self._num_tokens = whole.num_tokens
        if self._num_alike < _TAUGHT_ALIKE or self._num_alike % _TAUGHT_ALIKE == 0:
            self.step_times.observe(whole, took_s)
        if self.num_streams and self._ended_s is not None:
            gap_s = now_s - self._ended_s
            self._controller.observe(gap_s / self._tightest_itl_s, self.num_streams, self._fixed_share)
        self._ended_s = now_s if whole.num_sampled else None
