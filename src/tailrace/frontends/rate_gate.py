"""Lets a client's requests in as far as its limits go, and counts them and their tokens. No wire format."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tailrace.errors import MIN_RETRY_S, Overloaded, RefusalReason
from tailrace.frontends.gcra import MinuteRate
from tailrace.frontends.rate_table import MAX_HERE, MAX_PROCESSES, Account, RateTable
from tailrace.frontends.standing import Client, ClientLimits

__all__ = ["UNLIMITED_VISIT", "Left", "RateGate", "Visit"]


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a limit of a minute, and when all of it is there again."""

    limit: int
    left: int
    reset_s: float


class Visit:
    """A request that is here, or that was not let in: then it has a `refusal`. `leave` ends it.

    `requests` and `tokens` are what is left to its client; None: there is no such limit.
    """

    __slots__ = ("_charge", "_leave", "refusal", "requests", "tokens")

    def __init__(
        self,
        *,
        requests: Left | None = None,
        tokens: Left | None = None,
        refusal: Overloaded | None = None,
        charge: Callable[[int], None] | None = None,
        leave: Callable[[], None] | None = None,
    ) -> None:
        self.requests = requests
        self.tokens = tokens
        self.refusal = refusal
        self._charge = charge
        self._leave = leave

    def charge(self, num_tokens: int) -> None:
        """Tokens of its prompt or of its answer, once they are known. They are not refused any more, but waited for
        by the client's next requests."""
        if self._charge is not None and num_tokens:
            self._charge(num_tokens)

    def leave(self) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None


UNLIMITED_VISIT = Visit()


def _pass(visit: Visit) -> None:
    pass


class RateGate:
    """The door of one process. For the event loop's thread alone: the table's lock keeps processes apart, not threads.

    `clock_ns` is the machine's monotonic clock, which processes have in common.
    """

    def __init__(self, table: RateTable, process: int = 0, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Nobody is inside yet: what a process of this number left behind is forgotten."""
        if not 0 <= process < MAX_PROCESSES:
            raise ValueError(f"there is room for processes 0 to {MAX_PROCESSES - 1}, not {process}")
        table.forget_process(process)
        self._table = table
        self._process = process
        self._clock_ns = clock_ns

    def enter(self, client: Client) -> Visit:
        """Count a request, unless it is one too many."""
        if not client.limits.is_any:
            return UNLIMITED_VISIT
        digest, now_ns = _digest(client), self._clock_ns()
        with self._table.account(digest, self._process, now_ns) as account:
            if account is None:
                message = "too many clients with limits are here at once; come back soon"
                return Visit(refusal=Overloaded(message, retry_after_s=MIN_RETRY_S, reason=RefusalReason.RATE_LIMITED))
            refusal = _refusal(account, client.limits, now_ns)
            if refusal is None:
                self._admit(account, client.limits, now_ns)
            requests, tokens = _left(account, client.limits, now_ns)
        if refusal is not None:
            return Visit(requests=requests, tokens=tokens, refusal=refusal)
        return Visit(
            requests=requests,
            tokens=tokens,
            charge=lambda num_tokens: self._charge(digest, client.limits, num_tokens),
            leave=lambda: self._leave(digest),
        )

    @contextmanager
    def visiting(self, client: Client, note: Callable[[Visit], object] = _pass) -> Iterator[Visit]:
        """Within this is what costs something. `note` is told of the visit first, also of one that is not let in.

        Raises Overloaded for who has used up its limits.
        """
        visit = self.enter(client)
        try:
            note(visit)
            if visit.refusal is not None:
                raise visit.refusal
            yield visit
        finally:
            visit.leave()

    def _admit(self, account: Account, limits: ClientLimits, now_ns: int) -> None:
        account.here[self._process] = min(account.here[self._process] + 1, MAX_HERE)
        if limits.requests_per_minute is not None:
            rate = MinuteRate(limits.requests_per_minute)
            account.requests_full_ns = rate.taken(account.requests_full_ns, now_ns)

    def _charge(self, digest: bytes, limits: ClientLimits, num_tokens: int) -> None:
        if limits.tokens_per_minute is None:
            return
        now_ns = self._clock_ns()
        with self._table.account(digest, self._process, now_ns) as account:
            if account is not None:
                rate = MinuteRate(limits.tokens_per_minute)
                account.tokens_full_ns = rate.taken(account.tokens_full_ns, now_ns, num_tokens)

    def _leave(self, digest: bytes) -> None:
        with self._table.account(digest, self._process, self._clock_ns()) as account:
            if account is not None:
                account.here[self._process] = max(0, account.here[self._process] - 1)


def _digest(client: Client) -> bytes:
    return hashlib.blake2b(client.name.encode(), digest_size=16).digest()


def _refusal(account: Account, limits: ClientLimits, now_ns: int) -> Overloaded | None:
    """Of the limits that are met, that which lasts longest."""
    if limits.max_requests is not None and sum(account.here) >= limits.max_requests:
        message = f"{limits.max_requests} requests of this API key are here: wait for one of them to end"
        return Overloaded(message, retry_after_s=MIN_RETRY_S, reason=RefusalReason.TENANT_LIMIT)
    waits = [
        (MinuteRate(limit).wait_ns(full_ns, now_ns), limit, what)
        for limit, full_ns, what in (
            (limits.requests_per_minute, account.requests_full_ns, "requests"),
            (limits.tokens_per_minute, account.tokens_full_ns, "tokens"),
        )
        if limit is not None
    ]
    wait_ns, limit, what = max(waits, default=(0, 0, ""))
    if not wait_ns:
        return None
    message = f"this API key may use {limit:,} {what} a minute, and has: come back in {wait_ns / 1e9:.3f} s"
    return Overloaded(message, retry_after_s=wait_ns / 1e9, reason=RefusalReason.RATE_LIMITED)


def _left(account: Account, limits: ClientLimits, now_ns: int) -> tuple[Left | None, Left | None]:
    return (
        _left_of(limits.requests_per_minute, account.requests_full_ns, now_ns),
        _left_of(limits.tokens_per_minute, account.tokens_full_ns, now_ns),
    )


def _left_of(limit: int | None, full_ns: int, now_ns: int) -> Left | None:
    if limit is None:
        return None
    return Left(limit, MinuteRate(limit).left(full_ns, now_ns), max(0, full_ns - now_ns) / 1e9)
