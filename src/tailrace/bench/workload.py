"""What a benchmark sends and when: how long prompts and answers are, and when requests are due. It sends nothing."""

import random
from dataclasses import dataclass
from itertools import accumulate

from tailrace.bench.server import Endpoint
from tailrace.errors import SetupError

__all__ = ["Arrivals", "Workload"]


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that differ from each other behind a shared prefix. The same seed gives the same prompts."""

    num_requests: int
    prompt_tokens: int
    output_tokens: int
    shared_prefix_tokens: int = 0
    endpoint: Endpoint = "completions"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_requests", "prompt_tokens", "output_tokens"):
            if getattr(self, name) < 1:
                raise SetupError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.shared_prefix_tokens < self.prompt_tokens:
            raise SetupError(
                f"a shared prefix of {self.shared_prefix_tokens} tokens leaves nothing of a prompt of "
                f"{self.prompt_tokens}: it must be shorter"
            )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When requests are due. Without a rate a request is due when one of `concurrency` slots is free (closed loop).

    With a rate they are due at random times whatever the server does (open loop), at most `concurrency` in flight.
    Burstiness is the shape of the gamma-distributed gaps: 1 is Poisson, below 1 comes in bursts.
    """

    concurrency: int
    rate: float | None = None  # requests a second
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise SetupError(f"concurrency must be at least 1, not {self.concurrency}")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise SetupError(f"the rate must be a positive number of requests a second, not {self.rate:g}")
        if not 0 < self.burstiness < float("inf"):
            raise SetupError(f"burstiness must be a positive number, not {self.burstiness:g}")

    def due_s(self, num_requests: int, seed: int) -> list[float]:
        """Seconds after the start at which each request is due; the first at 0. Closed loop: all at 0."""
        if self.rate is None:
            return [0.0] * num_requests
        generator = random.Random(f"arrivals-{seed}")
        scale_s = 1.0 / (self.rate * self.burstiness)
        gaps = (generator.gammavariate(self.burstiness, scale_s) for _ in range(num_requests - 1))
        return list(accumulate(gaps, initial=0.0))
