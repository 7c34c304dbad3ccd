"""The processes of a server as parts of a whole: who was started again, and how full lies between them."""

from collections.abc import Callable, Mapping

from tailrace.telemetry.catalogs import server as catalog
from tailrace.telemetry.series import LabelledNumber, Number, Series

__all__ = ["LinkMetrics", "ServerMetrics"]

ReadFill = Callable[[], Mapping[str, float]]


class ServerMetrics:
    """What all processes know alike: shown once, by who brings together what each has counted."""

    def __init__(self) -> None:
        self._up = Number(catalog.ENGINE_UP)
        self._engine_restarts = Number(catalog.ENGINE_RESTARTS)
        self._api_restarts = Number(catalog.API_RESTARTS)
        self.series: tuple[Series, ...] = tuple(vars(self).values())

    def show(self, *, is_engine_up: bool, num_engine_restarts: int, num_api_restarts: int) -> None:
        """As it is now. Never in the figures of a single process."""
        self._up.value = is_engine_up
        self._engine_restarts.value = num_engine_restarts
        self._api_restarts.value = num_api_restarts


class LinkMetrics:
    """An API process's way to the engine. Written, and asked, by the event loop's thread."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._read: ReadFill = dict
        self._resumed = Number(catalog.REQUESTS_RESUMED)
        self._used = LabelledNumber(catalog.RING_USED)
        self.series: tuple[Series, ...] = (self._resumed, self._used)

    def request_resumed(self) -> None:
        """The next engine was handed a request that one before it had."""
        self._resumed.value += 1

    def watch(self, read: ReadFill) -> None:
        """Ask `read` how full each ring is."""
        self._read = read

    def refresh(self) -> None:
        """Bring the series up to date."""
        for ring, share in self._read().items():
            self._used.set(share, self._process, ring)
