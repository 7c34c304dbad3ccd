"""Computes ahead what prompts are likely to begin with, while nobody waits; gives way to the first who comes.

It learns from the prompts that pass by: how often each beginning was used, as token ids, in memory. What was used once
is kept as a hash alone. See `kvcache/warm.py` for the bounds.
"""

import asyncio
import logging
import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from tailrace.engine.client import EngineClient
from tailrace.errors import Overloaded, TailraceError, UnavailableError
from tailrace.kvcache.warm import HotPrefix, PrefixTally
from tailrace.types import FinishReason, ModelTarget, PromptTarget, Request, SamplingParams, Target, TenantTarget

__all__ = ["BusyEngine", "Warmer", "WarmerConfig"]

logger = logging.getLogger(__name__)


class BusyEngine(EngineClient, Protocol):
    @property
    def num_requests(self) -> int:
        """Requests that were submitted and have not ended."""
        ...


@dataclass(frozen=True, slots=True)
class WarmerConfig:
    """A prompt is computed `piece_tokens` at a time, whole blocks: as long a step may be for who comes meanwhile.

    `max_tokens` is what the computed prefixes may fill of the cache, `quiet_s` how long nothing may have come. All is
    done in the class of `class_name`; empty: in the default one.
    """

    piece_tokens: int
    max_tokens: int
    quiet_s: float = 0.25
    horizon_s: float = 900.0  # what uses are foretold for, and after which others may be due without any traffic
    look_every_s: float = 5.0  # at most so often it works out what is due
    keep_every_s: float = 60.0
    class_name: str = ""


Prefix = tuple[str, Sequence[int]]
"""A salt and token ids."""


class Warmer:
    """A PromptWatcher. `run` is a task that ends with the server."""

    def __init__(
        self,
        engine: BusyEngine,
        tally: PrefixTally,
        config: WarmerConfig,
        *,
        keep: Callable[[Sequence[HotPrefix]], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        calendar: Callable[[], float] = time.time,
    ) -> None:
        """`keep` is handed the hottest prefixes now and then, and at the end. The calendar's seconds are of the day."""
        self._engine = engine
        self._tally = tally
        self._config = config
        self._keep = keep
        self._clock = clock
        self._calendar = calendar
        self._traffic = asyncio.Event()
        self._arrived_s = -math.inf
        self._kept_s = -math.inf
        self._running_id: str | None = None
        self._num_sent = 0

    def arrives(self, salt: str, token_ids: Sequence[int]) -> None:
        """A user's prompt is about to be submitted: count it, and get out of its way."""
        self._arrived_s = self._clock()
        self._tally.count(salt, token_ids, self._calendar())
        self._traffic.set()
        if self._running_id is not None:
            self._engine.abort(self._running_id)

    def forget(self, target: Target) -> None:
        """What is forgotten by the cache shall not be computed again. Single blocks are not known here."""
        match target:
            case TenantTarget():
                self._tally.forget(target.cache_salt)
            case PromptTarget():
                self._tally.forget(target.cache_salt, target.prompt_ids)
            case ModelTarget(fingerprint=None):
                self._tally.forget_all()
        if self._running_id is not None:
            self._engine.abort(self._running_id)

    async def run(self, listed: Sequence[Prefix] = (), on_start: Callable[[], None] | None = None) -> None:
        """Compute what is listed, then again and again what is due. Ends when the engine does.

        `on_start` is called once what was known at the start is computed.
        """
        try:
            await self._compute_all(self._that_fit(listed))
            await self._compute_all(await self._due())
            if on_start is not None:
                on_start()
            while True:
                self._hand_over(self._config.keep_every_s)
                await self._wait_for_traffic()
                await self._compute_all(await self._due())
        except UnavailableError:
            logger.info("nothing is computed ahead any more: the engine has stopped")
        finally:
            self._hand_over(0.0)

    async def _compute_all(self, prefixes: Sequence[Prefix]) -> None:
        todo = deque(prefixes)
        while todo:
            await self._wait_for_quiet()
            if await self._compute(*todo[0]):
                todo.popleft()

    def _that_fit(self, listed: Sequence[Prefix]) -> Sequence[Prefix]:
        """As many as fit, from the first on."""
        ends = list(accumulate(len(token_ids) for _, token_ids in listed))
        num_fitting = bisect_right(ends, self._config.max_tokens)
        if num_fitting < len(listed):
            logger.warning(
                "only the first %d of %d listed prompts are computed ahead: half the cache holds %d tokens, not %d",
                num_fitting,
                len(listed),
                self._config.max_tokens,
                ends[-1],
            )
        return listed[:num_fitting]

    async def _due(self) -> list[Prefix]:
        """The hottest prefixes of which something is missing in the cache, those first that save the most tokens."""
        saved: list[tuple[float, Prefix]] = []
        for prefix in self._hottest():
            await self._wait_for_quiet()
            num_missing = await self._num_missing(prefix.salt, prefix.token_ids)
            if num_missing:
                saved.append((prefix.expected_uses * num_missing, (prefix.salt, prefix.token_ids)))
        return [prefix for _, prefix in sorted(saved, key=lambda one: -one[0])]

    async def _num_missing(self, salt: str, token_ids: Sequence[int]) -> int:
        """Tokens to compute. What the cache never gives, as its logits are wanted, is not missing."""
        try:
            found = await self._engine.explain(token_ids, salt)
        except Overloaded:
            return 0  # no time for this now; it stays due
        num_missing = len(token_ids) - found.prefix.num_cached_tokens
        return num_missing if num_missing > found.block_tokens else 0

    def _hottest(self) -> list[HotPrefix]:
        return self._tally.hottest(self._config.max_tokens, self._calendar(), self._config.horizon_s)

    def _hand_over(self, every_s: float) -> None:
        now_s = self._clock()
        if self._keep is not None and now_s - self._kept_s >= every_s:
            self._kept_s = now_s
            self._keep(self._hottest())

    async def _wait_for_traffic(self) -> None:
        """Until somebody has come, or other prefixes may be due."""
        await asyncio.sleep(self._config.look_every_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.horizon_s):
                await self._traffic.wait()
        self._traffic.clear()

    async def _wait_for_quiet(self) -> None:
        quiet_s = self._config.quiet_s
        while self._engine.num_requests or self._clock() - self._arrived_s < quiet_s:
            await asyncio.sleep(quiet_s / 4)

    async def _compute(self, salt: str, token_ids: Sequence[int]) -> bool:
        """Whether the prefix is dealt with: False when it gave way to somebody."""
        num_missing, size = await self._num_missing(salt, token_ids), self._config.piece_tokens
        first = (len(token_ids) - num_missing) // size * size
        for end in range(first + size, len(token_ids) + size, size) if num_missing else ():
            if self._engine.num_requests:
                return False
            reason = await self._submit(salt, token_ids[:end])
            if reason is FinishReason.ABORT:
                return False
            if reason not in {FinishReason.STOP, FinishReason.LENGTH}:
                return True  # it can never be computed, or the engine is about to end; either was logged
        return True

    async def _submit(self, salt: str, token_ids: Sequence[int]) -> FinishReason | None:
        """Compute tokens, of which all but the last piece are cached by now; how that ended, None if it did not."""
        self._num_sent += 1
        request_id = f"warm-up-{self._num_sent}"
        sampling = SamplingParams(max_tokens=1, temperature=0.0)
        name = self._config.class_name
        request = Request(request_id, token_ids, sampling, cache_salt=salt, is_warmup=True, class_name=name)
        self._running_id, reason = request_id, None
        try:
            async for events in self._engine.submit(request):
                reason = events[-1].finish_reason
                if (refusal := events[-1].refusal) is not None:
                    raise refusal.error
        except UnavailableError:
            raise
        except Overloaded as error:  # it gives way to whoever else is there
            await asyncio.sleep(error.retry_after_s)
            reason = FinishReason.ABORT
        except TailraceError as error:
            logger.warning("a prefix of %d tokens is not computed ahead: %s", len(token_ids), error)
        finally:
            self._running_id = None
            if reason is None:
                self._engine.abort(request_id)
        return reason
