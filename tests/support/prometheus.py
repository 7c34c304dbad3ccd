"""A real Prometheus for tests, from Debian's packages, without installing it: fetched once, into .cache.

Only where it is not installed. It needs neither root nor a service, and ends with the test.
"""

import json
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PATIENCE_S", "Prometheus", "program", "promtool", "running_prometheus"]

PATIENCE_S = 60.0  # a busy machine may take its time

_ROOT = Path(__file__).parents[2]
_KEPT = _ROOT / ".cache" / "prometheus"
_NEEDED = "these tests need Prometheus: apt-get install prometheus"


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is."""
    if installed := shutil.which(name):
        return installed
    kept = _KEPT / "usr" / "bin" / name
    if not kept.exists():
        _fetch()
    return str(kept)


def _fetch() -> None:
    """Unpack the package beside its place and move it there: others may be at it, too."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise AssertionError(f"{_NEEDED} (or whatever installs it here)")
    _KEPT.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_KEPT.parent) as folder:
        _download(Path(folder))
        (package,) = Path(folder).glob("prometheus_*.deb")
        unpacked = Path(folder) / "unpacked"
        subprocess.run(["dpkg", "-x", package, unpacked], check=True)
        if not _KEPT.exists():
            unpacked.rename(_KEPT)


def _download(folder: Path) -> None:
    """By the lists of packages that are there, or else with lists of our own, which need no root."""
    if _apt_get(folder, "download", "prometheus").returncode == 0:
        return
    (folder / "lists" / "partial").mkdir(parents=True)
    own = ("-o", f"Dir::State::lists={folder / 'lists'}", "-o", f"Dir::Cache={folder}")
    _apt_get(folder, *own, "update")
    done = _apt_get(folder, *own, "download", "prometheus")
    assert done.returncode == 0, f"{_NEEDED}. It could not be fetched: {done.stderr}"


def _apt_get(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["apt-get", "-q", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def promtool(*arguments: str | Path) -> str:
    """What it says of files that are well; an AssertionError has what it says of others."""
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The labels and the value of each sample that there is now. Raises when it is no expression."""
        data = self._get("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(sample["metric"], float(sample["value"][1])) for sample in data["result"]]

    def rules(self) -> list[dict[str, Any]]:
        """Of all groups: `type`, `name`, `query` and more."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def wait_for(self, expression: str, least: float) -> None:
        """Until the only value of an expression has come to this."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (samples := self.query(expression)) or samples[0][1] < least:
            assert time.monotonic() < deadline_s, f"{expression} is {samples} and did not come to {least}"
            time.sleep(0.05)

    def _get(self, path: str, **fields: str) -> Any:
        with urllib.request.urlopen(
            f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(fields)}", timeout=PATIENCE_S
        ) as reply:
            return json.load(reply)["data"]


@contextmanager
def running_prometheus(config: Path, port: int, options: Sequence[str] = ()) -> Iterator[Prometheus]:
    """With this configuration, and its data beside it."""
    address = f"127.0.0.1:{port}"
    data = config.parent / "data"
    command = [program("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={data}", *options]
    with subprocess.Popen(
        [*command, f"--web.listen-address={address}", "--log.level=warn"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            _await(process, f"http://{address}/-/ready")
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def _await(process: "subprocess.Popen[str]", url: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        assert process.poll() is None, f"Prometheus ended: {process.communicate()[0]}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"Prometheus did not get ready in {PATIENCE_S:.0f} s")
