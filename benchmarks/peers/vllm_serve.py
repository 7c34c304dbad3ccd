"""vLLM's CPU build, where it is installed already: it is never installed from here."""

import os
import shutil
from dataclasses import dataclass

from benchmarks.peers.engine import Description, EngineUnavailable
from benchmarks.peers.http_server import HttpServer
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop, output_of
from benchmarks.serving.server import ServerCommand

__all__ = ["VllmServe"]

_FLAGS = (
    *("--dtype", "bfloat16", "--max-num-seqs", "32", "--max-model-len", "2048"),
    "--enable-prefix-caching",
)
_START_TIMEOUT_S = 400.0  # its first start compiles for more than a minute


@dataclass(frozen=True, slots=True)
class VllmServe:
    """`program`: its path or name, looked up on PATH."""

    workshop: Workshop
    weights: Weights
    program: str
    name: str = "vllm"
    max_rounds: int | None = None

    def prepare(self) -> tuple[Description, HttpServer]:
        """Find it. Raises EngineUnavailable."""
        program = shutil.which(self.program)
        if program is None:
            raise EngineUnavailable(f"{self.program!r} is not installed (--vllm PROGRAM names another)")
        model = str(self.weights.hf_directory())
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        environment = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_OMP_THREADS_BIND": cores}
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        command = ServerCommand(
            lambda port: [program, "serve", model, "--host", "127.0.0.1", "--port", str(port), *_FLAGS],
            environment=environment | offline,
            model=model,
            start_timeout_s=_START_TIMEOUT_S,
            log=self.workshop.scratch("vllm") / "server.log",
        )
        settings = " ".join((*_FLAGS, *(f"{key}={value}" for key, value in environment.items())))
        return Description(output_of([program, "--version"]), "bfloat16", settings), HttpServer(command)
