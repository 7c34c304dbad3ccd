"""Saves: rows of the pool -> staging rows -> each level. A row of the pool is held for a copy alone."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead, Save, SaveAnswer
from tailrace.levels.api import BlockLevel, Outdated, StoredBlock
from tailrace.runtime.level_worker import LevelWorker
from tailrace.runtime.staging import StagedBlock, Staging
from tailrace.types import Level

__all__ = ["Saves"]


class Saves:
    """A thread copies from the pool to a staging row, then each level's thread writes from there, in its own time."""

    def __init__(self, pool: NDArray[np.uint8], answer: Callable[[SaveAnswer], None], staging_bytes: int) -> None:
        """`pool`: [num_blocks, block_bytes]. `attach` the levels, then `start`."""
        self._staging = Staging(max(staging_bytes // pool.shape[1], 8), pool.shape[1])
        self._pool = pool
        self._answer = answer
        self._workers: Sequence[LevelWorker] = ()
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Save, StagedBlock]] = deque()
        self._unstaged: set[StagedBlock] = set()  # not yet with the levels
        self._is_closing = False
        self.num_refused = 0
        self._thread = threading.Thread(target=self._run, name="tailrace-kv-stage", daemon=True)

    def share(self, num_levels: int) -> int:
        """How many blocks may wait for one level: if all but one do not move, there is still room for that one."""
        return self._staging.num_slots // (num_levels + 1)

    def start(self, workers: Sequence[LevelWorker]) -> None:
        self._workers = workers
        self._thread.start()

    def save(self, saves: Sequence[Save], versions: Mapping[Level, int]) -> int:
        """Take as many as there is room for; `versions` are of the forgets that the engine knows of."""
        with self._changed:
            taken = saves[: 0 if self._is_closing else self._staging.num_free]
            blocks = [self._staging.take(save, versions) for save in taken]
            self._waiting.extend(zip(taken, blocks, strict=True))
            self._unstaged.update(blocks)
            self.num_refused += len(saves) - len(taken)
            self._changed.notify()
        return len(taken)

    def write(self, level: BlockLevel, blocks: Sequence[StagedBlock]) -> int:
        """On the level's thread: how many blocks were written."""
        runs = groupby(blocks, lambda block: block.versions.get(level.level, 0))
        return sum(self._put(level, list(run), version) for version, run in runs)

    def _put(self, level: BlockLevel, blocks: Sequence[StagedBlock], version: int) -> int:
        try:
            return level.put([StoredBlock(block.head, self._staging.data(block)) for block in blocks], version)
        except Outdated:  # something was forgotten meanwhile that these may belong to
            return 0

    def let_go(self, blocks: Sequence[StagedBlock]) -> None:
        """A level is done with these blocks."""
        with self._changed:
            for block in blocks:
                block.num_holders -= 1
                if not block.num_holders:
                    self._staging.give_back(block)

    def drop(self, forgets: Sequence[Forget]) -> None:
        """Write nothing of this that is not written yet: neither what is forgotten nor what may continue it."""
        with self._changed:
            for block in self._unstaged:
                block.is_dropped |= any(may_cover(forget, block.head) for forget in forgets)
        for worker in self._workers:
            self.let_go(worker.drop_saves(lambda block: any(may_cover(forget, block.head) for forget in forgets)))

    def drop_all(self) -> None:
        for worker in self._workers:
            self.let_go(worker.drop_saves(lambda _block: True))

    def close(self) -> None:
        """What was taken is staged, nothing more is taken."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            for save, block in waiting:
                self._staging.fill(block, self._pool[save.block_id])
            self._answer(SaveAnswer(tuple(save.block_id for save, _ in waiting)))
            for _, block in waiting:
                self._hand_out(block)

    def _next(self) -> list[tuple[Save, StagedBlock]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            waiting = list(self._waiting)
            self._waiting.clear()
            return waiting or None

    def _hand_out(self, block: StagedBlock) -> None:
        block.num_holders = len(self._workers) + 1  # this thread, too: nobody frees it meanwhile
        with self._changed:  # as `drop`: what is forgotten is found either here or with the levels
            self._unstaged.discard(block)
            refused = sum(not self._hand_to(worker, block) for worker in self._workers)
        self.let_go([block] * (refused + 1))

    def _hand_to(self, worker: LevelWorker, block: StagedBlock) -> bool:
        return not block.is_dropped and worker.level not in block.skipped and worker.save(block)


def may_cover(forget: Forget, head: BlockHead) -> bool:
    """Whether a block is forgotten. What continues a prefix cannot be told from its head alone: any block may."""
    match forget.scope:
        case Scope.BLOCK:
            return head.name == forget.target
        case Scope.PREFIX:
            return True
        case Scope.TENANT:
            return head.tenant == forget.target
        case Scope.FINGERPRINT:
            return head.fingerprint == forget.target
