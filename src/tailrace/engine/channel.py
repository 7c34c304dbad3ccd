"""What an API process and the engine share, made before they are forked: three rings and two bells.

    API process                                         engine process
      commands   ------ requests, aborts, questions ------>
                 <----- a slot for each token -------------   tokens
                 <----- what a slot has no room for -------   details
      worker_bell: there are slots        engine_bell: there are commands; one for all API processes

A slot that says so has a detail: the next one of its request and generation, which was written before it.
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.ring import Bell, MessageRing, TokenRing

__all__ = ["Channel", "make_channels", "wake_all"]

_TOKEN_SLOTS = 8192  # for a second of 256 streams at 32 tokens a second
_MIN_BYTES = 1 << 20
_TOKEN_BYTES = 4
_HEAD_BYTES = 64 << 10  # of a request without its tokens: 1,024 biases and 256 stop tokens take 20 KiB
_RING_MESSAGES = 2  # a ring takes messages of up to half its capacity


@dataclass(frozen=True, slots=True)
class Channel:
    """Between the engine and the API process with the index `owner`. Each attaches rings of its own to the memory."""

    owner: int
    engine_bell: Bell
    worker_bell: Bell
    commands: memoryview
    tokens: memoryview
    details: memoryview


def make_channels(num_workers: int, max_model_tokens: int) -> tuple[Channel, ...]:
    """One for each API process. A request as long as the context fits its commands, and so does any answer."""
    engine_bell = Bell()
    num_bytes = max(_RING_MESSAGES * (_TOKEN_BYTES * max_model_tokens + _HEAD_BYTES), _MIN_BYTES)
    return tuple(
        Channel(
            owner,
            engine_bell,
            Bell(),
            commands=_shared(MessageRing.bytes_for(num_bytes)),
            tokens=_shared(TokenRing.bytes_for(_TOKEN_SLOTS)),
            details=_shared(MessageRing.bytes_for(num_bytes)),
        )
        for owner in range(num_workers)
    )


def wake_all(channels: Sequence[Channel]) -> None:
    """Let all look at the board."""
    for channel in channels:
        channel.worker_bell.ring()
        channel.engine_bell.ring()


def _shared(num_bytes: int) -> memoryview:
    """Memory that a process and those forked from it share. It begins as zeros."""
    return memoryview(mmap.mmap(-1, num_bytes))
