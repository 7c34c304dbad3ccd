"""What is compared: an engine that gets itself built, and answers one load from a fresh start."""

from dataclasses import dataclass
from typing import Protocol

from benchmarks.serving.workloads import ServingWorkload
from tailrace.bench.prompts import PromptSet
from tailrace.bench.report import Report

__all__ = ["Description", "Engine", "EngineUnavailable", "Load", "Runner", "checked"]


class EngineUnavailable(Exception):
    """Why an engine could not be built, started or measured."""


@dataclass(frozen=True, slots=True)
class Description:
    """What was measured: without it the figures mean nothing."""

    version: str
    weights: str
    flags: str


@dataclass(frozen=True, slots=True)
class Load:
    """A workload and its prompts: those to measure, then as many to warm up with as there are streams."""

    workload: ServingWorkload
    prompts: PromptSet
    seed: int


class Runner(Protocol):
    """An engine that is built."""

    def measure(self, load: Load) -> Report:
        """Start, warm up, measure, stop. Raises EngineUnavailable."""
        ...


class Engine(Protocol):
    """An engine by name. `max_rounds`: more would only take time, for it is far from the best; None: in all rounds."""

    @property
    def name(self) -> str: ...

    @property
    def max_rounds(self) -> int | None: ...

    def prepare(self) -> tuple[Description, Runner]:
        """Build and install what is not there yet. Raises EngineUnavailable."""
        ...


def checked(load: Load, report: Report) -> Report:
    """The report of a run that did all that it was asked to. Raises EngineUnavailable: other figures do not compare."""
    if report.failures:
        raise EngineUnavailable(f"requests failed ({report.failures}); the first: {report.first_error}")
    workload = load.workload
    tokens = workload.num_requests * workload.output_tokens
    if report.output_tokens != tokens:
        raise EngineUnavailable(f"it gave {report.output_tokens} tokens where {tokens} were asked for")
    expected = workload.num_requests * workload.prompt_tokens
    if report.input_tokens != expected:
        raise EngineUnavailable(f"it saw {report.input_tokens} tokens of prompts where {expected} were sent")
    return report
