"""How long the garbage collector holds the interpreter up, and with it every step and every stream."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailrace.telemetry.catalogs import process as catalog
from tailrace.telemetry.series import LabelledHistogram, Series

__all__ = ["GcPauses"]


class GcPauses:
    """Shows nothing but zeros unless somebody is `watching`. Collections of all threads count: each holds up all."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._started_s = 0.0
        generations = [str(generation) for generation in range(len(gc.get_threshold()))]
        pauses = LabelledHistogram(catalog.GC_PAUSE_SECONDS, [(generation,) for generation in generations])
        self._pauses = [pauses.of(generation) for generation in generations]
        self.series: tuple[Series, ...] = (pauses,)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the collections of this process meanwhile."""
        gc.callbacks.append(self._note)
        try:
            yield
        finally:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started_s = self._clock()
        else:
            self._pauses[info["generation"]].observe(self._clock() - self._started_s)
