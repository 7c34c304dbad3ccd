"""Experts that come into memory when a step chooses them: filled by threads that wait for what steps ask for."""

import logging
import threading
import weakref
from collections.abc import Callable, Sequence

from tailrace.ops import _native
from tailrace.ops.cpu.store import WeightStore
from tailrace.ops.program import Experts, Weight
from tailrace.records import ResidencyCounts

__all__ = ["ResidentExperts"]

logger = logging.getLogger(__name__)


class ResidentExperts:
    """The experts of a program's mixtures, of which as many are in memory as fit into `max_bytes`.

    Or as one mixture chooses in a step, if they take more. Who computes waits in native code, whoever fills, here.
    """

    def __init__(self, store: WeightStore, max_bytes: int) -> None:
        self.native = _native.Residency(store.packed, max_bytes)
        self._filling = _Filling(store, self.native)
        self._close: Callable[[], object] = self.native.close
        store.packed.place_lazy()

    def add(self, op: Experts) -> int:
        """One more mixture, in the order in which they are computed; its number."""
        weights = (op.gate, op.up, op.down)
        self._filling.mixtures.append(weights)
        return self.native.add(list(zip(*map(self._filling.store.ids_of, weights), strict=True)))

    def start(self, num_threads: int) -> None:
        """Begin to fill what is asked for, in the process that computes."""
        threads = [threading.Thread(target=self._filling.run, name="experts", daemon=True) for _ in range(num_threads)]
        for thread in threads:
            thread.start()
        # Without `close`, when nobody computes with them any more, or the interpreter ends.
        self._close = weakref.finalize(self, _end, self.native, threads)

    def watch(self, on_filled: Callable[[], None]) -> None:
        """Call this, from any thread, whenever an expert has come: a step that waits for many is not hanging."""
        self._filling.on_filled = on_filled

    def counts(self) -> ResidencyCounts:
        """What became of them so far. May be asked at any time."""
        counts = self.native.counts
        return ResidencyCounts(
            hits=counts.hits,
            misses=counts.misses,
            evictions=counts.evictions,
            foreseen=counts.foreseen,
            foreseen_hits=counts.foreseen_hits,
            waited_s=counts.waited_s,
            num_resident=counts.num_resident,
            resident_bytes=counts.resident_bytes,
        )

    def close(self) -> None:
        """Fill no more, and end the threads. No step may be running."""
        self._close()


class _Filling:
    """What the threads need, which do not keep alive whom they work for."""

    def __init__(self, store: WeightStore, native: _native.Residency) -> None:
        self.store = store
        self.mixtures: list[Sequence[Weight]] = []
        self.on_filled: Callable[[], None] = lambda: None
        self._native = native

    def run(self) -> None:
        """Fill one expert after the other, until there are no more."""
        try:
            while (taken := self._native.take()) is not None:
                self._fill(*taken)
        except Exception as error:  # whatever it is, steps wait for this thread
            logger.exception("no expert can be loaded any more")
            self._native.fail(str(error) or type(error).__name__)

    def _fill(self, mixture: int, expert: int) -> None:
        try:
            for weight in self.mixtures[mixture]:
                self.store.read_ahead(weight, expert)
            for weight in self.mixtures[mixture]:
                for piece in self.store.pieces_of(weight, expert):
                    self.store.fill_piece(piece)
        except Exception as error:
            # One that is just foreseen may yet not be chosen.
            logger.error("an expert cannot be loaded: %s", error)
            self._native.fail_one(mixture, expert, str(error) or type(error).__name__)
            return
        self._native.done(mixture, expert)
        self.on_filled()


def _end(native: _native.Residency, threads: Sequence[threading.Thread]) -> None:
    native.close()
    for thread in threads:
        thread.join()
