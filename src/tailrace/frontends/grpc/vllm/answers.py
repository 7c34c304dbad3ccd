"""Deltas of an answer as messages of vLLM's protocol: chunks while it is made, and one `complete` for each choice.

In a stream, `complete` has the totals of its choice and no token again: the chunks have had them all. As in vLLM, the
`completion_tokens` of a chunk are its own.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from smg_grpc_proto.generated import vllm_engine_pb2 as pb

from tailrace.frontends.ends import check_unbroken
from tailrace.service.api import ChoiceDelta, GenerationStream, TextLogprob
from tailrace.types import FinishReason

__all__ = ["AnswerWriter"]


@dataclass(slots=True)
class _Choice:
    """What a choice has had so far; ids and log probabilities are kept for whom nothing is streamed."""

    num_tokens: int = 0
    token_ids: "array[int]" = field(default_factory=lambda: array("I"))
    logprobs: list[TextLogprob] = field(default_factory=list)


class AnswerWriter:
    """Of one call with `num_choices`."""

    def __init__(self, num_choices: int, *, is_streamed: bool) -> None:
        self._choices = [_Choice() for _ in range(num_choices)]
        self._is_streamed = is_streamed

    def messages(self, delta: ChoiceDelta, stream: GenerationStream) -> Iterator[pb.GenerateResponse]:
        """Raises what broke a choice off. One that was aborted has an end like others."""
        choice = self._choices[delta.index]
        choice.num_tokens += len(delta.token_ids)
        if not self._is_streamed:
            choice.token_ids.extend(delta.token_ids)
            choice.logprobs.extend(delta.logprobs)
        elif delta.token_ids:
            yield pb.GenerateResponse(chunk=_chunk(delta, stream))
        if delta.finish_reason is not None:
            yield pb.GenerateResponse(complete=_complete(delta, delta.finish_reason, choice, stream))


def _chunk(delta: ChoiceDelta, stream: GenerationStream) -> pb.GenerateStreamChunk:
    usage = stream.usage
    return pb.GenerateStreamChunk(
        token_ids=delta.token_ids,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=len(delta.token_ids),
        cached_tokens=usage.cached_tokens,
        output_logprobs=_logprobs(delta.logprobs),
        index=delta.index,
    )


def _complete(
    delta: ChoiceDelta, reason: FinishReason, choice: _Choice, stream: GenerationStream
) -> pb.GenerateComplete:
    check_unbroken(delta)
    usage = stream.usage
    complete = pb.GenerateComplete(
        output_ids=choice.token_ids,
        finish_reason=reason.value,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=choice.num_tokens,
        cached_tokens=usage.cached_tokens,
        output_logprobs=_logprobs(choice.logprobs),
        index=delta.index,
    )
    if isinstance(delta.stop_reason, str):
        complete.matched_stop_str = delta.stop_reason
    elif delta.stop_reason is not None:
        complete.matched_token_id = delta.stop_reason
    return complete


def _logprobs(given: Sequence[TextLogprob]) -> pb.OutputLogProbs | None:
    if not given:
        return None
    tops = [
        pb.TopLogProbs(values=[top.logprob for top in each.top], token_ids=[top.token_id for top in each.top])
        for each in given
        if each.top
    ]
    return pb.OutputLogProbs(
        token_logprobs=[each.logprob for each in given],
        token_ids=[each.token_id for each in given],
        top_logprobs=tops,
    )
