"""Which traces are recorded, as OpenTelemetry's variables say it. The same trace is decided alike by every server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tailrace.errors import SetupError

__all__ = ["TraceSampler"]

_NAME, _ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_NAMES = ("always_on", "always_off", "traceidratio")
_FOLLOWING = "parentbased_"
_RANGE = 1 << 64  # of the half of a trace id that decides


@dataclass(frozen=True, slots=True)
class TraceSampler:
    """Records this share of all traces; `follows_parent`: those that were begun elsewhere, as it was decided there."""

    ratio: float = 1.0
    follows_parent: bool = True

    def samples(self, trace_id: str, is_parent_sampled: bool | None) -> bool:
        """Whether a trace is recorded. None: it begins here."""
        if self.follows_parent and is_parent_sampled is not None:
            return is_parent_sampled
        return int(trace_id[16:], 16) < round(self.ratio * _RANGE)

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """As the variables of the environment have it; all traces, if they say nothing. Raises SetupError."""
        given = variables.get(_NAME) or "parentbased_always_on"
        name = given.removeprefix(_FOLLOWING)
        if name not in _NAMES:
            known = ", ".join([*_NAMES, *(_FOLLOWING + each for each in _NAMES)])
            raise SetupError(f"{_NAME} {given[:64]!r} is not supported: it is one of {known}")
        ratio = _ratio(variables) if name == "traceidratio" else float(name == "always_on")
        return cls(ratio, given.startswith(_FOLLOWING))


def _ratio(variables: Mapping[str, str]) -> float:
    given = variables.get(_ARGUMENT) or "1"
    try:
        ratio = float(given)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise SetupError(f"{_ARGUMENT} {given[:64]!r} is no share of all traces: write a number from 0 to 1")
    return ratio
