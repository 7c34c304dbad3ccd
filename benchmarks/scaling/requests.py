"""What a step costs the engine itself, by how many requests wait and by how many run."""

from collections.abc import Sequence

from benchmarks.scaling.finding import Finding
from benchmarks.scaling.stepping import EngineInSteps

__all__ = ["running_finding", "waiting_finding"]

NUM_RUNNING = 32
WAITING = (0, 100, 1_000, 10_000)
RUNNING = (1, 8, 32, 64, 128, 256)
SHORT_ANSWER = 32  # tokens: with 32 running, one request ends and another begins in each step
ROUNDS = 5
STEPS = 200  # of a round
MAX_GROWTH = 0.15


def waiting_finding() -> Finding:
    """A queue is only ever looked at from its front."""
    steady = _best_us([EngineInSteps(NUM_RUNNING, waiting) for waiting in WAITING])
    turnover = _best_us([EngineInSteps(NUM_RUNNING, waiting, SHORT_ANSWER) for waiting in WAITING])
    growth = max(steady[-1] / steady[0], turnover[-1] / turnover[0]) - 1
    return Finding(
        claim=f"The cost of a token does not depend on how many requests wait ({NUM_RUNNING} running, no device)",
        columns=("waiting", "µs a token, steady", "µs a token, one request ends a step"),
        rows=[
            (f"{waiting:,}", f"{one / NUM_RUNNING:.2f}", f"{other / NUM_RUNNING:.2f}")
            for waiting, one, other in zip(WAITING, steady, turnover, strict=True)
        ],
        verdict=f"{growth:+.0%} from none to {WAITING[-1]:,} waiting, at most {MAX_GROWTH:.0%} wanted",
        holds=growth <= MAX_GROWTH,
    )


def running_finding() -> Finding:
    """Plan, commit and record are a constant and something for each running request."""
    times = _best_us([EngineInSteps(running, 0) for running in RUNNING])
    shares = [time / running for time, running in zip(times, RUNNING, strict=True)]
    growth = shares[-1] / shares[RUNNING.index(NUM_RUNNING)] - 1
    return Finding(
        claim="Planning and committing a step costs each running request the same, however many there are (no device)",
        columns=("running", "µs a step", "µs a step and request"),
        rows=[
            (str(running), f"{time:.0f}", f"{share:.2f}")
            for running, time, share in zip(RUNNING, times, shares, strict=True)
        ],
        verdict=f"{growth:+.0%} for each request from {NUM_RUNNING} to {RUNNING[-1]}, at most {MAX_GROWTH:.0%} wanted",
        holds=growth <= MAX_GROWTH,
    )


def _best_us(engines: Sequence[EngineInSteps]) -> list[float]:
    """Each engine in every round, so that a noisy neighbour meets all of them; the best round of each."""
    rounds = [[engine.typical_us(STEPS) for engine in engines] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]
