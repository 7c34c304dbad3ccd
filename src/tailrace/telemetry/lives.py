"""The latest requests of this process, each from its head to its end: what traces, attribution and the console show."""

from collections import deque
from collections.abc import Callable

import msgspec

from tailrace.types import Beginning, SamplingParams

__all__ = ["LifeLog", "RequestLife"]


class RequestLife(msgspec.Struct, kw_only=True, eq=False):
    """Times are the machine's monotonic seconds, in the order in which they come; None: not yet, or never."""

    request_id: str
    endpoint: str  # chat, completion, response, message, grpc, shm
    class_name: str
    accepted_s: float  # its head was there
    trace: str = ""  # W3C traceparent; empty: nobody traces it
    parsed_s: float | None = None  # its body was read and decoded
    tokenised_s: float | None = None  # its prompt is token ids
    submitted_s: float | None = None  # and on its way to the engine
    beginning: Beginning | None = None  # what the engine did for its first token
    received_s: float | None = None  # that token was out of the ring
    text_s: float | None = None  # and text
    written_s: float | None = None  # and with the socket; of an answer that leaves as a whole: as text_s
    ended_s: float | None = None
    finish_reason: str | None = None
    error: str | None = None
    num_prompt_tokens: int = 0
    num_output_tokens: int = 0
    num_reasoning_tokens: int = 0  # of these
    found: dict[str, int] = msgspec.field(default_factory=dict)  # prompt tokens that needed no computing, by level
    miss_reason: str | None = None  # why there were no more
    parent_span_id: str = ""  # of who asked, in the trace
    trace_state: str = ""  # W3C tracestate, as it came
    sampling: SamplingParams | None = None  # as its client asked
    seed: int | None = None
    num_choices: int = 1
    is_streamed: bool = False
    status: int | None = None  # of HTTP
    answer_id: str = ""
    resumed_s: list[float] = msgspec.field(default_factory=list)  # when another engine took the place of one that died


class LifeLog:
    """Of those that are open all up to a bound, of those that have ended the latest. One thread writes and reads."""

    def __init__(self, *, max_open: int = 1024, max_ended: int = 256) -> None:
        self.on_end: Callable[[RequestLife], None] = lambda life: None  # is told of each that has ended
        self._max_open = max_open
        self._open: dict[str, RequestLife] = {}
        self._ended: deque[RequestLife] = deque(maxlen=max_ended)

    def begin(self, life: RequestLife) -> None:
        """A request is there. What is said of it from now on is written into its life itself."""
        if len(self._open) < self._max_open:
            self._open[life.request_id] = life

    def end(self, life: RequestLife) -> None:
        """It is over, however it was."""
        self._open.pop(life.request_id, None)
        self._ended.append(life)
        self.on_end(life)

    def engine_replaced(self, now_s: float) -> None:
        """One has died: another goes on with those that were submitted."""
        for life in self._open.values():
            if life.submitted_s is not None:
                life.resumed_s.append(now_s)

    def lives(self) -> list[RequestLife]:
        """Newest first; those that are open before the others."""
        return [*reversed(self._open.values()), *reversed(self._ended)]
