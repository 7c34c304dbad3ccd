"""Tailrace, as a user starts it."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.peers.engine import Description, EngineUnavailable
from benchmarks.peers.http_server import START_TIMEOUT_S, HttpServer
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop, output_of
from benchmarks.serving.server import our_command
from tailrace.version import __version__

__all__ = ["OURS", "Ours"]

OURS = "tailrace"


@dataclass(frozen=True, slots=True)
class Ours:
    """`file`: what is served; None: the default model. `arguments`: the others of `tailrace serve`."""

    workshop: Workshop
    weights: Weights
    arguments: tuple[str, ...] = ()
    file: Path | None = None
    name: str = OURS
    max_rounds: int | None = None

    def prepare(self) -> tuple[Description, HttpServer]:
        """Nothing to build."""
        version = f"{__version__} ({_commit()})"
        log = self.workshop.scratch(self.name) / "server.log"
        model = () if self.file is None else (str(self.file),)
        command = replace(our_command(*model, *self.arguments), log=log, start_timeout_s=START_TIMEOUT_S)
        return Description(version, self.weights.formats, shlex.join(self.arguments)), HttpServer(command)


def _commit() -> str:
    try:
        return output_of(["git", "describe", "--always", "--dirty"])
    except EngineUnavailable:
        return "not in a git checkout"
