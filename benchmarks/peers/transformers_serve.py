"""`transformers serve` with continuous batching, in bfloat16."""

from dataclasses import dataclass

from benchmarks.peers.engine import Description
from benchmarks.peers.http_server import HttpServer
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop
from benchmarks.serving.server import ServerCommand

__all__ = ["TransformersServe"]

_NAME = "transformers"
_REQUIREMENTS = ("torch==2.13.0", "transformers[serving]==5.24.0")
_FLAGS = (
    *("--device", "cpu", "--dtype", "bfloat16", "--attn-implementation", "sdpa"),
    *("--continuous-batching", "--cb-block-size", "32", "--cb-num-blocks", "1024", "--cb-max-batch-tokens", "1024"),
)


@dataclass(frozen=True, slots=True)
class TransformersServe:
    workshop: Workshop
    weights: Weights
    threads: int
    name: str = _NAME
    max_rounds: int | None = 1

    def prepare(self) -> tuple[Description, HttpServer]:
        """Install it, with torch for the CPU where pip is set up to find that. Raises EngineUnavailable."""
        venv = self.workshop.venv(_NAME, *_REQUIREMENTS)
        program, model = venv.program("transformers"), str(self.weights.hf_directory())
        command = ServerCommand(
            lambda port: [program, "serve", model, "--host", "127.0.0.1", "--port", str(port), *_FLAGS],
            environment={
                "OMP_NUM_THREADS": str(self.threads),
                "HF_HUB_OFFLINE": "1",
                "TRANSFORMERS_OFFLINE": "1",
            },
            model=model,
            log=venv.folder / "server.log",
        )
        flags = " ".join((*_FLAGS, f"OMP_NUM_THREADS={self.threads}"))
        description = Description(venv.versions("transformers", "torch"), "bfloat16", flags)
        return description, HttpServer(command, {"temperature": 0})  # it refuses ignore_eos
