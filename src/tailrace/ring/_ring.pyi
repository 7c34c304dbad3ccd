"""The compiled module csrc/bind/ring. What lies where in memory: __init__.py.

Memory must be writable, contiguous, and begin at a multiple of 64 bytes, as a mapping does; it stays lent for as long
as the object lives. Numbers are unsigned: `number` of 64 bits, `kind`, `generation` and `position` of 32.
"""

from collections.abc import Sequence

from tailrace.types import FinishReason, TokenEvent

_Buffer = bytes | bytearray | memoryview
_Slot = tuple[int, int | None, float | None, int, int, FinishReason | None, bool]

class MessageRing:
    """Messages of any size up to half the ring. All methods raise RingDamaged."""

    def __init__(self, buffer: memoryview) -> None: ...
    @staticmethod
    def bytes_for(capacity_bytes: int) -> int:
        """How much memory it needs."""

    @property
    def capacity_bytes(self) -> int: ...
    @property
    def max_message_bytes(self) -> int:
        """A message of so many bytes always fits once all others are read."""

    @property
    def used_bytes(self) -> int: ...
    @property
    def free_bytes(self) -> int:
        """A message takes 16 bytes, and its own rounded up to a multiple of 8."""

    def send(self, kind: int, generation: int, *parts: _Buffer) -> bool:
        """Copy the parts, behind each other, as one message. False: there is no room now. Raises ValueError: never."""

    def receive(self) -> tuple[int, int, bytes] | None:
        """Kind, generation and bytes of the oldest message; None when all are read."""

class TokenRing:
    """Tokens, or ends, of requests. All methods but `take_pushed` raise RingDamaged."""

    def __init__(self, buffer: memoryview) -> None: ...
    @staticmethod
    def bytes_for(num_slots: int) -> int:
        """How much memory it needs."""

    @property
    def num_slots(self) -> int: ...
    @property
    def num_free(self) -> int: ...
    def push_detailed(
        self,
        number: int,
        token_id: int | None,
        logprob: float | None,
        position: int,
        generation: int,
        finish_reason: FinishReason | None,
    ) -> bool:
        """Push what a message belongs to that was sent before, through another ring. False: there is no room now."""

    def pop(self, most: int) -> list[_Slot]:
        """The oldest ones: number, token id, logprob, position, generation, finish reason, whether it has a detail."""

    def take_pushed(self) -> bool:
        """Whether anything was pushed through this object since it was last asked: then its reader's bell is due."""

class Told:
    """What the reader of a ring has been told of a request."""

    position: int  # tokens so far
    prefix: object  # None: nothing was said of it

    def __init__(self, ring: TokenRing, number: int, position: int = 0) -> None: ...
    @property
    def number(self) -> int: ...

def push_events(events: Sequence[TokenEvent], told: dict[str, Told], generation: int, first: int = 0) -> int:
    """Push events from the `first`-th on, each to the ring of its request, and count its tokens.

    Returns where it stopped: at the first whose request is not in `told`, which finds its ring full or damaged, or
    which a slot cannot hold: no token, best ones besides it, an error, a refusal, or a prefix other than the one told.
    They are seen when it returns.
    """

class Bell:
    """Wakes the reader in a process forked from the one that made it. Any number of ringers, one reader.

    A ring costs a system call only while the reader sleeps. Who writes: write, then ring. Who reads, on a thread: wait,
    then read all; in an event loop that watches `fd`: clear, read all, arm. A writer that dies may not have rung:
    whoever sees it die rings.
    """

    def __init__(self) -> None: ...
    @property
    def fd(self) -> int: ...
    def ring(self) -> None: ...
    def arm(self) -> bool:
        """Say that the reader will sleep until `fd` is readable. False: it was rung meanwhile; read all once more."""

    def clear(self) -> None:
        """Say that the reader is awake: `fd` is no longer readable, and what was rung is known."""

    def wait(self, timeout_s: float | None, spin_s: float = 0.0) -> bool:
        """Sleep until it is rung, or was since the last wait; False: the time was up. None: wait for ever.

        It looks again and again for `spin_s` before it sleeps. Other threads run meanwhile.
        """

class FutexBell:
    """A Bell in memory that any two processes share: NUM_BYTES of zeros. No event loop can watch it."""

    NUM_BYTES: int

    def __init__(self, buffer: memoryview) -> None: ...
    def ring(self) -> None: ...
    def wait(self, timeout_s: float | None, spin_s: float = 0.0) -> bool: ...
