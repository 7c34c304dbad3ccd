"""A server on this machine as if it were an engine in this process: prompt in, stream of tokens out, by shared memory.

    client = tailrace.connect("shm://name")
    for text in client.stream("Once upon a time", max_tokens=64):
        print(text, end="", flush=True)

Loads neither models nor arrays.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from tailrace.client.joining import join
from tailrace.client.link import Link
from tailrace.client.options import Completion, Options, PromptLike, is_prompt
from tailrace.client.stream import TextStream
from tailrace.errors import InvalidRequest, SetupError
from tailrace.frontends.shm.wire import Ask, packed

__all__ = ["Client", "ClientOptions", "connect"]

_SCHEME = "shm://"


class ClientOptions(Options, total=False):
    """`n` choices, and `logprobs`: of each token, and of so many of the best besides. Read `deltas` of the stream."""

    n: int
    logprobs: int


class Client:
    """A connection to a server. Close it, or use it as a context manager; it ends with its process in any case.

    Threads, and event loops, may share it; a process that was forked needs its own.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def is_closed(self) -> bool:
        return self._link.is_closed

    def stream(self, prompt: PromptLike, **options: Unpack[ClientOptions]) -> TextStream:
        """Start one answer. `prompt` is text, or a list of chat messages.

        Options: e.g. `max_tokens=64, temperature=0.0, seed=1, stop=["."]`; all are listed in `ClientOptions`.
        Raises InvalidRequest, ContextTooLong, Overloaded; UnavailableError when the server is not there, or not ready.
        """
        stream = TextStream(self._link, self._link.ask(_encoded(prompt, options)))
        stream.begin()
        return stream

    async def astream(self, prompt: PromptLike, **options: Unpack[ClientOptions]) -> TextStream:
        """As `stream`, for `async for`."""
        stream = TextStream(self._link, await self._link.aask(_encoded(prompt, options)))
        await stream.abegin()
        return stream

    def generate(self, prompts: PromptLike | Sequence[PromptLike], **options: Unpack[Options]) -> list[Completion]:
        """Answer one prompt, or each of several, batched; they come back in order. Options: see `stream`.

        Nothing is promised about when: what the server has no room for is asked again.
        """
        from tailrace.client.batch import in_a_loop  # noqa: PLC0415  (event loops take longer to load than all the rest)

        return in_a_loop(self.agenerate(prompts, **options))

    async def agenerate(
        self, prompts: PromptLike | Sequence[PromptLike], **options: Unpack[Options]
    ) -> list[Completion]:
        """As `generate`, without blocking the event loop."""
        from tailrace.client.batch import answer_all  # noqa: PLC0415  (as above)

        batch = [prompts] if is_prompt(prompts) else prompts
        return await answer_all([partial(self.astream, prompt, **options) for prompt in batch])

    def close(self) -> None:
        """The server ends what is under way."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(address: str) -> Client:
    """A client of the server at shm://NAME, which was started on this machine with `tailrace serve --shm NAME`.

    Raises UnavailableError when it is not there, Overloaded when it has too many clients, SetupError.
    """
    if not address.startswith(_SCHEME):
        raise SetupError(f"{address[:80]!r} is no address of a server in shared memory: write shm://NAME")
    return Client(join(address.removeprefix(_SCHEME)))


def _encoded(prompt: PromptLike, options: Mapping[str, Any]) -> bytes:
    settings = dict(options)
    if isinstance(stop := settings.get("stop"), str):
        settings["stop"] = [stop]
    if isinstance(prompt, str):
        settings["prompt"] = prompt
    else:
        settings["messages"] = [dict(message) for message in prompt]
    ask = Ask(**settings)
    try:
        return packed(ask)
    except (TypeError, OverflowError) as error:
        raise InvalidRequest(f"the request cannot be sent: {error}") from None
