"""Deltas of an answer as messages of our own protocol."""

from collections.abc import Iterator

from tailrace.frontends.ends import check_end
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.service.api import CallDelta, ChoiceDelta, GenerationStream, TextLogprob, Usage
from tailrace.types import FinishReason

__all__ = ["AnswerWriter"]

_FINISHES = {
    FinishReason.STOP: pb.FINISH_STOP,
    FinishReason.LENGTH: pb.FINISH_LENGTH,
    FinishReason.TOOL_CALLS: pb.FINISH_TOOL_CALLS,
}


class AnswerWriter:
    """Of one call with `num_choices`."""

    def __init__(self, num_choices: int, *, has_token_ids: bool) -> None:
        self._num_open = num_choices
        self._has_token_ids = has_token_ids

    def messages(self, delta: ChoiceDelta, stream: GenerationStream) -> Iterator[pb.GenerateResponse]:
        """One, or none for a delta in which there is nothing to see. Raises what ended a choice before its end."""
        message = pb.GenerateResponse(text=delta.text, index=delta.index)
        if self._has_token_ids:
            message.token_ids.extend(delta.token_ids)
        if delta.logprobs:
            message.logprobs.extend(map(_logprob, delta.logprobs))
        if delta.reasoning:
            message.reasoning = delta.reasoning
        if delta.calls:
            message.calls.extend(map(_call, delta.calls))
        if delta.finish_reason is not None:
            check_end(delta)
            self._end(message, delta.finish_reason, delta.stop_reason, stream)
        if delta.text or delta.reasoning or delta.calls or message.token_ids or message.logprobs or message.finish:
            yield message

    def _end(
        self,
        message: pb.GenerateResponse,
        reason: FinishReason,
        stop_reason: str | int | None,
        stream: GenerationStream,
    ) -> None:
        message.finish = _FINISHES[reason]
        if isinstance(stop_reason, str):
            message.stop_text = stop_reason
        elif stop_reason is not None:
            message.stop_token_id = stop_reason
        self._num_open -= 1
        if not self._num_open:
            message.usage.CopyFrom(_usage(stream.usage))


def _call(delta: CallDelta) -> pb.CallDelta:
    return pb.CallDelta(index=delta.index, arguments=delta.arguments, id=delta.call_id, name=delta.name)


def _logprob(given: TextLogprob) -> pb.Logprob:
    return pb.Logprob(
        token_id=given.token_id,
        logprob=given.logprob,
        token=given.raw,
        offset=given.offset,
        top=map(_logprob, given.top),
        is_reasoning=given.is_reasoning,
    )


def _usage(usage: Usage) -> pb.Usage:
    return pb.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )
