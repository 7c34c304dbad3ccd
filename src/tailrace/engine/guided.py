"""Sequences that follow a guide while they run: masks are asked for, drawn tokens offered, before anybody sees them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from tailrace.errors import TailraceError
from tailrace.ops.api import NO_TOKEN
from tailrace.runtime.masks import MaskRow, MaskWriter
from tailrace.scheduler.plan import SampledToken, StepPlan, StepResult
from tailrace.types import Guide, Request

__all__ = ["CorrectableRunner", "GuidedRunner", "MakeGuide", "TokenGuide"]

logger = logging.getLogger(__name__)

_UNLIKELY = -9999.0  # the log probability that clients know of a token of which it is not known


class TokenGuide(Protocol):
    """Where one answer stands in its grammar. One thread at a time calls it."""

    @property
    def is_cut(self) -> bool:
        """Whether another token than was offered had to be taken, since the end would not have fitted."""
        ...

    def fill(self, row: MaskRow, /) -> None:
        """Set the bit of each token that may come next, and clear all others."""
        ...

    def offer(self, token_id: int, num_left: int) -> int:
        """Let the answer go on with this token, or with another one, which is returned: at most so many may follow."""
        ...


MakeGuide: TypeAlias = Callable[[Guide, int, Sequence[int]], TokenGuide]
"""Of a guide, the most tokens that its answer may have, and those that it has. Raises TailraceError."""


class CorrectableRunner(Protocol):
    def run(self, plan: StepPlan) -> StepResult: ...

    def correct(self, request_id: str, position: int, token_id: int) -> None:
        """Before the next step: the token at this position is another one than was drawn."""
        ...


@dataclass(slots=True, eq=False)
class _Guided:
    request: Request
    guide: TokenGuide
    position: int  # of the token that is drawn next
    max_length: int
    fault: str | None = None

    def fill(self, row: MaskRow) -> None:
        try:
            self.guide.fill(row)
        except TailraceError as error:
            self.fault = str(error)
            row[:] = 0

    def offer(self, token_id: int) -> int:
        """The token that the answer goes on with; NO_TOKEN at a fault."""
        if token_id != NO_TOKEN:
            try:
                self.position += 1
                return self.guide.offer(token_id, self.max_length - self.position)
            except TailraceError as error:
                self.fault = str(error)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a library's panic is no Exception; the other requests can do without this one
                about = {"request_id": self.request.request_id, "trace": self.request.trace}
                logger.exception("the guide of request %s failed", self.request.request_id, extra=about)
                self.fault = "its guide failed; see the server's log"
        self.fault = self.fault or "its grammar leaves no token that could come next"
        return NO_TOKEN


class GuidedRunner:
    """Runs plans, and has masks written meanwhile: the one for a step's draw while the step computes.

    `rows` are those of the sequences that run, by request: the runner inside reads it.
    """

    def __init__(
        self, runner: CorrectableRunner, writer: MaskWriter, rows: dict[str, int], eos_ids: Sequence[int]
    ) -> None:
        self._runner = runner
        self._writer = writer
        self._rows = rows
        self._eos_ids = frozenset(eos_ids)
        self._guided: dict[str, _Guided] = {}
        self._faults: dict[str, str] = {}

    @property
    def num_guided(self) -> int:
        """Requests that have a guide and have not ended."""
        return len(self._guided)

    def admit(self, request: Request, guide: TokenGuide, max_length: int) -> None:
        """A request with a guide is about to be planned; `ended` must follow."""
        position = request.num_prompt_tokens + len(request.output_ids)
        self._guided[request.request_id] = _Guided(request, guide, position, max_length)

    def ended(self, request_id: str) -> None:
        """A request, with a guide or without, is over."""
        self._guided.pop(request_id, None)

    def is_cut(self, request_id: str) -> bool:
        """Whether the answer of a request that has not ended yet is shorter than it would be, to be whole."""
        guided = self._guided.get(request_id)
        return guided is not None and guided.guide.is_cut

    def take_faults(self) -> Mapping[str, str]:
        """Requests that cannot go on after the step, and why: to be ended before it is committed."""
        faults, self._faults = self._faults, {}
        return faults

    def close(self) -> None:
        self._writer.close()

    def run(self, plan: StepPlan) -> StepResult:
        for request_id in plan.left:
            if (row := self._rows.pop(request_id, None)) is not None:
                self._writer.give_back(row)
        for entry in plan.entered:
            if (guided := self._guided.get(entry.request_id)) is not None:
                self._rows[entry.request_id] = self._writer.take_row()
                self._ask(guided)
        if not self._rows:
            return self._runner.run(plan)
        result = self._runner.run(plan)
        sampled = tuple([self._settle(token) for token in result.sampled])
        return replace(result, sampled=sampled)

    def _settle(self, token: SampledToken) -> SampledToken:
        """Offer a token to its guide, if there is one, and ask for the next mask."""
        guided = self._guided.get(token.request_id)
        if guided is None:
            return token
        token_id = guided.offer(token.token_id)
        if token_id == NO_TOKEN:
            self._faults[token.request_id] = f"the answer cannot follow its format any further: {guided.fault}"
            return token
        if token_id not in self._eos_ids and guided.position < guided.max_length:
            self._ask(guided)
        if token_id == token.token_id:
            return token
        self._runner.correct(token.request_id, guided.position - 1, token_id)
        return _corrected(token, token_id)

    def _ask(self, guided: _Guided) -> None:
        self._writer.write(self._rows[guided.request.request_id], guided.position, guided.fill)


def _corrected(token: SampledToken, token_id: int) -> SampledToken:
    """The other token in place of this one, with its own log probability, as far as that is known."""
    if token.logprob is None:
        return token._replace(token_id=token_id)
    known = [each.logprob for each in token.top_logprobs if each.token_id == token_id]
    return token._replace(token_id=token_id, logprob=known[0] if known else _UNLIKELY)
