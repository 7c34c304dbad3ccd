"""Who comes when, with how many tokens: a trace at some load, or a burst, with classes and tenants drawn by seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from tailrace.measure.simulation.trace import TracedRequest
from tailrace.types import Request, SamplingParams

__all__ = ["Arrival", "Burst", "Mix", "at_rate", "burst", "from_trace", "mean_rate"]


@dataclass(frozen=True, slots=True)
class Arrival:
    request_id: str
    at_s: float
    num_prompt_tokens: int
    num_output_tokens: int  # exactly so many are computed
    class_name: str = ""
    tenant: str = ""

    def request(self, number: int) -> Request:
        """No two numbers have a block in common."""
        return Request(
            self.request_id,
            (number, *range(1, self.num_prompt_tokens)),
            SamplingParams(self.num_output_tokens, ignore_eos=True),
            arrival_s=self.at_s,
            class_name=self.class_name,
            tenant=self.tenant,
        )


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each class comes, as weights, and how many tenants there are in each."""

    weights: Mapping[str, float]
    num_tenants: int = 8
    seed: int = 0

    def draw(self) -> Iterator[tuple[str, str]]:
        """Class and tenant of one request after the other, without end."""
        random = Random(f"classes {self.seed}")
        names, weights = list(self.weights), list(self.weights.values())
        while True:
            (name,) = random.choices(names, weights)
            yield name, f"{name}-{random.randrange(self.num_tenants)}"


@dataclass(frozen=True, slots=True)
class Burst:
    """`quiet_share` of the requests come at some rate, the next `burst_share` `factor` times as fast, then the rest."""

    factor: float = 4.0
    quiet_share: float = 0.4
    burst_share: float = 0.4


def from_trace(traced: Sequence[TracedRequest], mix: Mix, divide_lengths_by: float = 1.0) -> list[Arrival]:
    """The requests of a trace at their own times, from 0 on; lengths are divided, but not to nothing."""
    first_s = traced[0].at_s if traced else 0.0
    return [
        Arrival(
            request_id=f"r{number}",
            at_s=one.at_s - first_s,
            num_prompt_tokens=max(round(one.num_prompt_tokens / divide_lengths_by), 1),
            num_output_tokens=max(round(one.num_output_tokens / divide_lengths_by), 1),
            class_name=class_name,
            tenant=tenant,
        )
        for number, (one, (class_name, tenant)) in enumerate(zip(traced, mix.draw(), strict=False))
    ]


def burst(arrivals: Sequence[Arrival], rate: float, shape: Burst, seed: int) -> list[Arrival]:
    """The same requests at random times: `rate` a second while it is quiet."""
    random, at_s = Random(f"burst {seed}"), 0.0
    begin = round(shape.quiet_share * len(arrivals))
    end = begin + round(shape.burst_share * len(arrivals))
    placed = []
    for number, arrival in enumerate(arrivals):
        at_s += random.expovariate(rate * shape.factor if begin <= number < end else rate)
        placed.append(replace(arrival, at_s=at_s))
    return placed


def mean_rate(arrivals: Sequence[Arrival]) -> float:
    """Requests a second from the first to the last; 0 when all come at once."""
    span_s = arrivals[-1].at_s - arrivals[0].at_s
    return (len(arrivals) - 1) / span_s if span_s else 0.0


def at_rate(arrivals: Sequence[Arrival], rate: float) -> list[Arrival]:
    """The same requests with time stretched or squeezed so that `rate` come a second."""
    factor = mean_rate(arrivals) / rate
    return [replace(arrival, at_s=arrival.at_s * factor) for arrival in arrivals]
