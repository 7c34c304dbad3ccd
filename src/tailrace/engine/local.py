"""The engine in this process: the step loop on a thread of its own, read from an event loop."""

import asyncio
import threading
from collections.abc import Callable, Sequence

from tailrace.classes import ServiceClasses
from tailrace.engine.client import TokenStream
from tailrace.engine.engine import Engine, Publish, Reply
from tailrace.engine.intake import Intake
from tailrace.engine.questions import Questions
from tailrace.engine.stream import StreamTable
from tailrace.types import Explain, Explanation, FinishReason, Invalidate, Invalidated, Request, Target

__all__ = ["LocalEngine"]


class LocalEngine:
    """An EngineClient. Make it on the event loop that will read the streams.

    `on_failure` is called on that event loop when the step loop has ended without being closed.
    """

    def __init__(
        self,
        intake: Intake,
        build: Callable[[Publish, Reply], Engine],
        on_failure: Callable[[], None],
    ) -> None:
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._streams = StreamTable(self._loop, intake)
        self._questions = Questions(self._loop)
        self._engine = build(self._streams.publish, self._questions.reply)
        self._on_failure = on_failure
        self._is_closing = False
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name="tailrace-engine", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        return not self._has_ended

    @property
    def received_s(self) -> float:
        """When the latest events came; monotonic."""
        return self._streams.delivered_s

    @property
    def classes(self) -> ServiceClasses:
        """The service classes, with the targets that they have now."""
        return self._engine.classes

    @property
    def num_requests(self) -> int:
        """Requests that were submitted and have not ended."""
        return self._streams.num_open

    def submit(self, request: Request) -> TokenStream:
        stream = self._streams.open(request.request_id)
        try:
            self._intake.submit(request)
        except BaseException:
            self._streams.close(request.request_id)
            raise
        return stream

    def abort(self, request_id: str, reason: FinishReason = FinishReason.ABORT) -> None:
        self._intake.abort(request_id, reason)

    async def explain(self, prompt_ids: Sequence[int], cache_salt: str) -> Explanation:
        query = Explain(self._questions.next_id(), prompt_ids, cache_salt)
        return await self._questions.ask(query, self._intake.ask, Explanation)

    async def invalidate(self, target: Target) -> Invalidated:
        query = Invalidate(self._questions.next_id(), target)
        return await self._questions.ask(query, self._intake.ask, Invalidated)

    def close(self) -> None:
        """Stop the loop after the running step; requests that are still live end with an error."""
        self._is_closing = True
        self._intake.close()
        self._thread.join()

    def _run(self) -> None:
        self._engine.run_forever()
        self._has_ended = True
        self._questions.end()
        if not self._is_closing:
            self._loop.call_soon_threadsafe(self._on_failure)
