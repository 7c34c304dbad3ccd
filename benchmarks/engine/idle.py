"""What a server that has nothing to do takes: memory beside its weights, and processor time."""

import time
import urllib.request
from dataclasses import dataclass

from benchmarks.serving.server import our_command, started_server
from tailrace.app import load_model
from tailrace.config import EngineConfig
from tailrace.weights.load import open_checkpoint

__all__ = ["Idle", "measure_idle", "process_metrics"]

SETTLE_S = 1.0
WATCH_S = 10.0


@dataclass(frozen=True, slots=True)
class Idle:
    """Of a server that has answered one request. A KV block takes memory once it was used, hardly any here."""

    rss_bytes: int
    weight_bytes: int
    cpu_share: float  # of one core

    @property
    def other_bytes(self) -> int:
        """Interpreter, libraries, tokenizer, buffers, and the KV blocks used so far."""
        return self.rss_bytes - self.weight_bytes


def measure_idle() -> Idle:
    """Start `tailrace serve` as a user would, and ask its metrics twice."""
    with started_server(our_command()) as url:
        time.sleep(SETTLE_S)
        before_s = process_metrics(_scrape(url))["process_cpu_seconds_total"]
        time.sleep(WATCH_S)
        after = process_metrics(_scrape(url))
    cpu_share = (after["process_cpu_seconds_total"] - before_s) / WATCH_S
    return Idle(int(after["process_resident_memory_bytes"]), _weight_bytes(), cpu_share)


def _scrape(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        text: str = reply.read().decode()
    return text


def process_metrics(exposition: str) -> dict[str, float]:
    """What Prometheus' text format says of the process itself."""
    lines = (line for line in exposition.splitlines() if line.startswith("process_"))
    return {name: float(value) for name, value in (line.split(" ", 1) for line in lines)}


def _weight_bytes() -> int:
    """Of the default model as the back end packs it."""
    model = load_model(open_checkpoint("default"), EngineConfig(kv_memory_bytes=64 << 20))
    num_bytes = model.executable.weight_bytes
    model.executable.close()
    return num_bytes
