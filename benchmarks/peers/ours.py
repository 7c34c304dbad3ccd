"""Tailrace, as a user starts it."""

import shlex
from dataclasses import dataclass, replace

from benchmarks.peers.engine import Description, EngineUnavailable
from benchmarks.peers.http_server import HttpServer
from benchmarks.peers.workshop import Workshop, output_of
from benchmarks.serving.server import our_command
from tailrace.version import __version__
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["OURS", "Ours"]

OURS = "tailrace"


@dataclass(frozen=True, slots=True)
class Ours:
    """`arguments`: those of `tailrace serve`."""

    workshop: Workshop
    checkpoint: Checkpoint
    arguments: tuple[str, ...] = ()
    name: str = OURS
    max_rounds: int | None = None

    def prepare(self) -> tuple[Description, HttpServer]:
        """Nothing to build."""
        formats = ", ".join(sorted(set(self.checkpoint.stored_formats.values())))
        version = f"{__version__} ({_commit()})"
        command = replace(our_command(*self.arguments), log=self.workshop.scratch(self.name) / "server.log")
        return Description(version, formats, shlex.join(self.arguments)), HttpServer(command)


def _commit() -> str:
    try:
        return output_of(["git", "describe", "--always", "--dirty"])
    except EngineUnavailable:
        return "not in a git checkout"
