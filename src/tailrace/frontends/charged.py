"""What an answer costs its client, and that its work ends with it, whatever happens in between."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tailrace.frontends.following import note_usage
from tailrace.frontends.rate_gate import Visit
from tailrace.service.api import GenerationStream, Usage
from tailrace.telemetry.lives import RequestLife

__all__ = ["charged"]

_NOTHING = Usage(0, 0, 0)


@asynccontextmanager
async def charged(
    stream: GenerationStream, visit: Visit, life: RequestLife, before: Usage = _NOTHING
) -> AsyncIterator[None]:
    """Within this an answer is sent. Its prompt is charged at once, and at the end what was made of it; both are noted.

    Enter it as soon as there is the stream: from here on nobody else ends it. Who has paid `before` pays the rest.
    """
    life.num_prompt_tokens = stream.prompt_tokens
    try:
        visit.charge(max(0, stream.prompt_tokens - before.prompt_tokens))
        yield
    finally:
        await stream.aclose()
        usage = stream.usage
        note_usage(life, usage)
        visit.charge(max(0, usage.completion_tokens - before.completion_tokens))
