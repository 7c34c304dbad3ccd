"""What a rule is: a signal, from when on it is trouble, for how long, what to do then, and when that is undone."""

import re
from dataclasses import dataclass
from enum import StrEnum

from tailrace.errors import SetupError

__all__ = ["ACTS_ON", "LOOKS_AT", "MAX_RULES", "Action", "Part", "Rule", "Side", "Signal"]

MAX_RULES = 64  # each is a label of metrics
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")  # a label, too
_LONGEST_S = 86_400.0


class Signal(StrEnum):
    """What can be watched, over the window of a rule."""

    HIT_RATE = "hit_rate"  # of what a level was asked for, the share of blocks that it gave
    FAILURES = "failures"  # calls that a level failed
    CORRUPT_BLOCKS = "corrupt_blocks"  # blocks of a level that failed their checksum
    TTFT_P99 = "ttft_p99"  # of a class, time to the first token, in targets: 1 is as promised
    LATE_TOKENS = "late_tokens"  # of a class, the share of tokens later than its target; at 0.01 that is its P99
    QUEUE_P99 = "queue_p99"  # of a class, seconds until a request was started
    WAITING = "waiting"  # requests of a class that wait now
    KV_USE = "kv_use"  # share of the KV blocks that running requests hold now


class Part(StrEnum):
    """Of what kind a thing is that a rule looks at or acts on."""

    LEVEL = "level"
    CLASS = "class"
    SERVER = "server"


LOOKS_AT = {
    Signal.HIT_RATE: Part.LEVEL,
    Signal.FAILURES: Part.LEVEL,
    Signal.CORRUPT_BLOCKS: Part.LEVEL,
    Signal.TTFT_P99: Part.CLASS,
    Signal.LATE_TOKENS: Part.CLASS,
    Signal.QUEUE_P99: Part.CLASS,
    Signal.WAITING: Part.CLASS,
    Signal.KV_USE: Part.SERVER,
}


class Action(StrEnum):
    """What is done while a rule holds."""

    BYPASS = "bypass"  # a level is neither looked up nor saved to
    ASYNCHRONOUS = "asynchronous"  # nobody waits for a level; what it has is fetched for the next one
    SHED = "shed"  # who comes now of a class is refused
    WARN = "warn"


ACTS_ON = {
    Action.BYPASS: Part.LEVEL,
    Action.ASYNCHRONOUS: Part.LEVEL,
    Action.SHED: Part.CLASS,
    Action.WARN: Part.SERVER,
}


class Side(StrEnum):
    """On which side of its threshold a signal is trouble."""

    BELOW = "below"
    ABOVE = "above"


@dataclass(frozen=True, slots=True)
class Rule:
    """Fires after `for_s` of trouble, and clears after `clear_for_s` in which all was well.

    Well is at `clear_at` or better: beyond the threshold, so that who stands at it does not go to and fro. `subject` is
    the level or class that is looked at, `target` what is acted on; empty where there is none.
    """

    name: str
    signal: Signal
    subject: str
    side: Side
    threshold: float
    for_s: float
    clear_at: float
    clear_for_s: float
    action: Action = Action.WARN
    target: str = ""
    window_s: float = 60.0  # over which the signal is taken
    min_samples: int = 20  # with fewer lookups, first tokens or tokens in it nothing is known, which is no trouble
    least_loss_s: float | None = None  # of each lookup: a level that costs requests less than that is no trouble

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SetupError(
                f"a rule cannot be called {self.name[:64]!r}: take up to 48 letters, digits, '.', '_', '-'"
            )
        if self.is_trouble(self.clear_at):
            raise self._complaint(f"clear_at must not lie on the side of trouble, as {self.clear_at:g} does")
        for field in ("for_s", "clear_for_s", "window_s"):
            if not 0.0 < getattr(self, field) <= _LONGEST_S:
                raise self._complaint(f"{field} must lie in (0, {_LONGEST_S:g}], not {getattr(self, field):g}")

    def is_trouble(self, value: float) -> bool:
        return value < self.threshold if self.side is Side.BELOW else value > self.threshold

    def is_well(self, value: float) -> bool:
        return value >= self.clear_at if self.side is Side.BELOW else value <= self.clear_at

    @property
    def words(self) -> str:
        """What it says, for its operator."""
        of = f" of {self.subject}" if self.subject else ""
        return f"{self.signal}{of} {self.side} {self.threshold:g} for {self.for_s:g} s"

    @property
    def deed(self) -> str:
        """What it does."""
        return f"{self.action} {self.target}".strip()

    def _complaint(self, what: str) -> SetupError:
        return SetupError(f"rule {self.name!r}: {what}")
