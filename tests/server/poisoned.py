"""`tailrace` with an engine that certain tokens kill: `python -m tests.server.poisoned serve`."""

import os
import sys

from tailrace.cli import main
from tailrace.runtime.runner import Runner
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler
from tailrace.types import Request

POISON = 31_337  # where it is computed
EARLY_POISON = 31_338  # where it is planned

_run = Runner.run
_add = Scheduler.add


def run(self: Runner, plan: StepPlan) -> StepResult:
    if any(POISON in entry.token_ids for entry in plan.entered):
        os.abort()
    return _run(self, plan)


def add(self: Scheduler, request: Request) -> None:
    if EARLY_POISON in request.prompt_ids:
        raise AssertionError("the plan makes no sense")
    _add(self, request)


if __name__ == "__main__":
    Runner.run = run  # type: ignore[method-assign]  # what is tested is what becomes of the others
    Scheduler.add = add  # type: ignore[method-assign]  # as above
    sys.exit(main())
