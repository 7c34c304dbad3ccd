"""Requests with guides in an engine, from their arrival to their end. Only the step loop calls it."""

from collections.abc import Callable, Mapping

from tailrace.engine.guide_making import GuideMaking, Made
from tailrace.engine.guided import GuidedRunner, MakeGuide, TokenGuide
from tailrace.errors import MIN_RETRY_S, Overloaded, TailraceError
from tailrace.types import FinishReason, Guide, Request, TokenEvent

__all__ = ["Guidance"]


class Guidance:
    """`longest` tells at how many tokens of prompt and answer a request ends at the latest.

    A guide takes memory, up to some 100 MB of the worst grammars: with `max_requests` of them no more are let in, but
    those that were let in before.
    """

    def __init__(
        self,
        make: MakeGuide,
        runner: GuidedRunner,
        longest: Callable[[Request], int],
        wake: Callable[[], None],
        max_requests: int,
    ) -> None:
        self._make = make
        self._runner = runner
        self._longest = longest
        self._making = GuideMaking(self._guide_of, wake)
        self._max_requests = max_requests

    def take(self, request: Request) -> None:
        """Have the guide of a request made. Raises Overloaded."""
        num_requests = len(self._making) + self._runner.num_guided
        if num_requests >= self._max_requests and not request.is_resumed:
            raise Overloaded(
                f"{num_requests} requests whose answers follow a format are here already, which is as many as may be: "
                f"ask again in {MIN_RETRY_S:.0f} s",
                retry_after_s=MIN_RETRY_S,
            )
        self._making.take(request)

    def withdraw(self, request_id: str) -> Request | None:
        """End a request of which the scheduler knows nothing yet; None when it is not here."""
        return self._making.withdraw(request_id)

    def set_paused(self, request_id: str, *, is_paused: bool) -> None:
        """Keep in mind whether a request is paused of which the scheduler knows nothing yet."""
        self._making.set_paused(request_id, is_paused=is_paused)

    def drain(self) -> list[Made]:
        """Requests that the scheduler can have now, or that end with an error. `admit` those it took."""
        return self._making.drain()

    def admit(self, made: Made) -> None:
        """The scheduler has taken a request; `ended` must follow."""
        if not isinstance(made.guide, TailraceError):
            self._runner.admit(made.request, made.guide, self._longest(made.request))

    def told(self, event: TokenEvent) -> TokenEvent:
        """What came of a step. An answer that had to be closed was ended by its length, whatever its last token is."""
        if event.finish_reason is FinishReason.STOP and self._runner.is_cut(event.request_id):
            return event._replace(finish_reason=FinishReason.LENGTH)
        return event

    def ended(self, request_id: str) -> None:
        """A request, with a guide or without, is over."""
        self._runner.ended(request_id)

    def take_faults(self) -> Mapping[str, str]:
        """Requests that cannot go on after the step that has run, and why: to be ended before it is committed."""
        return self._runner.take_faults()

    def close(self) -> None:
        self._making.close()
        self._runner.close()

    def _guide_of(self, request: Request) -> TokenGuide:
        guide = request.guide or Guide("")
        return self._make(guide, self._longest(request) - request.num_prompt_tokens, request.output_ids)
