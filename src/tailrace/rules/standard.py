"""The rules of a server whose operator has written none."""

from collections.abc import Iterator, Sequence

from tailrace.classes import ServiceClasses
from tailrace.rules.rule import Action, Rule, Side, Signal
from tailrace.types import Level

__all__ = ["standard_rules"]

_LEAST_LOSS_S = 0.05  # of each lookup: a twentieth of the tightest standard target for a first token
_MIN_LOOKUPS = 50


def standard_rules(classes: ServiceClasses, levels: Sequence[Level]) -> tuple[Rule, ...]:
    """For these levels below the engine and these classes."""
    of_levels = [rule for level in levels for rule in _of_level(level)]
    return (*of_levels, *_of_classes(classes))


def _of_level(level: Level) -> Iterator[Rule]:
    """A level that takes more time than it saves is not waited for.

    The second, listed last, decides while both hold: a level that has next to nothing is to be filled again.
    """
    for action, below, for_s in ((Action.BYPASS, 0.6, 180.0), (Action.ASYNCHRONOUS, 0.45, 300.0)):
        yield Rule(
            f"{level.value}-{action.value}",
            Signal.HIT_RATE,
            level.value,
            Side.BELOW,
            below,
            for_s=for_s,
            clear_at=round(1.1 * below, 6),
            clear_for_s=for_s,
            action=action,
            target=level.value,
            window_s=180.0,
            min_samples=_MIN_LOOKUPS,
            least_loss_s=_LEAST_LOSS_S,
        )


def _of_classes(classes: ServiceClasses) -> Iterator[Rule]:
    """Of two or more, the least makes way for the best."""
    if classes.least.name == classes.best.name:
        return
    yield Rule(
        f"shed-{classes.least.name}",
        Signal.TTFT_P99,
        classes.best.name,
        Side.ABOVE,
        1.0,
        for_s=60.0,
        clear_at=0.9,
        clear_for_s=60.0,
        action=Action.SHED,
        target=classes.least.name,
    )
