"""`tailrace` with an engine that certain tokens kill: `python -m tests.server.poisoned serve`."""

import os
import sys

from tailrace.cli import main
from tailrace.engine.bridge import EngineBridge
from tailrace.engine.desk import Desk
from tailrace.engine.wire import Submit
from tailrace.runtime.runner import Runner
from tailrace.scheduler.plan import StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler
from tailrace.types import Request

POISON = 31_337  # where it is computed
EARLY_POISON = 31_338  # where it is planned
BRIDGE_POISON = 31_339  # where it is taken in, by the first engine alone

_run = Runner.run
_add = Scheduler.add
_submit = EngineBridge._submit


def run(self: Runner, plan: StepPlan) -> StepResult:
    if any(POISON in entry.token_ids for entry in plan.entered):
        os.abort()
    return _run(self, plan)


def add(self: Scheduler, request: Request) -> None:
    if EARLY_POISON in request.prompt_ids:
        raise AssertionError("the plan makes no sense")
    _add(self, request)


def begin(self: EngineBridge, desk: Desk, submit: Submit) -> None:
    if BRIDGE_POISON in submit.request.prompt_ids and self._generation == 1:
        raise AssertionError("the command makes no sense")
    _submit(self, desk, submit)


if __name__ == "__main__":
    Runner.run = run  # type: ignore[method-assign]  # what is tested is what becomes of the others
    Scheduler.add = add  # type: ignore[method-assign]  # as above
    EngineBridge._submit = begin  # type: ignore[method-assign]  # as above
    sys.exit(main())
