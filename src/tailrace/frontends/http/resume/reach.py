"""How far what is kept of a stream reaches: nobody can be farther in it."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.resume.marks import Mark, Marks
from tailrace.service.api import ChoiceDelta, JournaledService, Output, SettledGeneration
from tailrace.types import FinishReason, TokenEvent

__all__ = ["check_reached"]

_OWN_ENDS = (FinishReason.STOP, FinishReason.TOOL_CALLS)  # which the text has, not its last token


async def check_reached(
    marks: Marks,
    service: JournaledService,
    settled: SettledGeneration,
    outputs: Sequence[Output],
    *,
    has_usage: bool,
) -> None:
    """Raises InvalidRequest for marks behind all that was said. Computes nothing.

    Whether the stream `has_usage` says whether that is the last that a client gets.
    """
    last = await _last_marks(service, settled, outputs)
    last.has_usage = has_usage and last.num_finished == settled.n
    # With log probabilities, less may be kept than was sent of the text of a token that was not out as a whole.
    is_text_kept = settled.sampling.num_logprobs is None
    pairs = zip(marks.choices, last.choices, strict=True)
    if any(_is_behind(mark, end, is_text_kept) for mark, end in pairs) or (marks.has_usage and not last.has_usage):
        raise InvalidRequest(
            f"the header last-event-id is {marks}, behind all that was sent: the last id is {last}",
            param="last-event-id",
        )


def _is_behind(mark: Mark, end: Mark, is_text_kept: bool) -> bool:
    has_more_text = is_text_kept and mark.num_chars > end.num_chars
    return has_more_text or mark.num_tokens > end.num_tokens or (mark.is_finished and not end.is_finished)


async def _last_marks(service: JournaledService, settled: SettledGeneration, outputs: Sequence[Output]) -> Marks:
    """Where a client is that has all of the outputs. They are read as if they were whole, so that nothing more comes.

    Of an output that goes on, that includes the text that is held back until it is certain.
    """
    wholes = [each if each.finish_reason else replace(each, finish_reason=FinishReason.LENGTH) for each in outputs]
    marks = Marks.begin(settled.n)
    async with aclosing(await service.resume(settled, wholes, _Nowhere())) as stream:
        async for delta in stream:
            _move(marks.choices[delta.index], delta, outputs[delta.index])
    return marks


def _move(mark: Mark, delta: ChoiceDelta, output: Output) -> None:
    mark.move(delta)
    is_own_end = output.finish_reason is not None or delta.finish_reason in _OWN_ENDS
    mark.is_finished = delta.finish_reason is not None and is_own_end
    mark.is_open = mark.is_finished or mark.num_chars > 0 or mark.num_tokens > 0


class _Nowhere:
    """A Journal of what is kept already."""

    def begin(self, settled: SettledGeneration, outputs: Sequence[Output]) -> None:
        pass

    def add(self, index: int, events: Sequence[TokenEvent]) -> None:
        pass
