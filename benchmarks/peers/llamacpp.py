"""llama.cpp's server, compiled for this processor from the source in PyPI's llama-cpp-python, with 4-bit weights."""

import os
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.engine import Description, EngineUnavailable
from benchmarks.peers.http_server import START_TIMEOUT_S, HttpServer
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop, output_of, run
from benchmarks.serving.machine import describe_processor
from benchmarks.serving.server import ServerCommand

__all__ = ["LlamaCpp"]

_NAME = "llama.cpp"
_SOURCE = "llama-cpp-python==0.3.36"
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",  # -march=native
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_UI=OFF",
)
_FORMAT = "Q4_0"  # its fastest: of 4-bit formats this one is repacked for wide vectors
_BATCHES = "-b 2048 -ub 2048 -fa auto"
_SLOT_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """`file`: what it runs as it is; None: the weights, requantised with its own tool."""

    workshop: Workshop
    weights: Weights
    threads: int
    file: Path | None = None
    num_slots: int = 32  # streams at a time
    name: str = _NAME
    max_rounds: int | None = None

    def prepare(self) -> tuple[Description, HttpServer]:
        """Compile it and give it its weights. Raises EngineUnavailable."""
        recipe = " ".join((_SOURCE, *_OPTIONS, describe_processor()))  # it runs on no other
        folder = self.workshop.folder(_NAME, recipe, _build)
        programs = folder / "build" / "bin"
        server, model = str(programs / "llama-server"), self.file or self._requantized(programs / "llama-quantize")
        context_tokens = self.num_slots * _SLOT_TOKENS
        flags = f"-t {self.threads} -tb {self.threads} -np {self.num_slots} -c {context_tokens} {_BATCHES}"
        command = ServerCommand(
            lambda port: [server, "-m", str(model), "--host", "127.0.0.1", "--port", str(port), *flags.split()],
            start_timeout_s=START_TIMEOUT_S,
            log=folder / "server.log",
        )
        version = f"{_SOURCE} ({output_of([server, '--version'])})"
        formats = f"{_FORMAT}, head Q8_0" if self.file is None else self.weights.formats
        return Description(version, formats, flags), HttpServer(command)

    def _requantized(self, quantize: Path) -> Path:
        file = f"{_FORMAT}.gguf"

        def make(folder: Path) -> None:
            options = ["--allow-requantize", str(self.weights.gguf), str(folder / file), _FORMAT, str(self.threads)]
            run(f"{_NAME}: requantising the weights", [str(quantize), *options], folder)

        return self.workshop.folder(f"{_NAME}-weights", f"{_FORMAT} {self.weights.fingerprint}", make) / file


def _build(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    what = [*pip, "--no-binary", "llama-cpp-python", "--dest", str(folder), _SOURCE]
    run(f"{_NAME}: fetching the source", what, folder)
    source = _unpacked(folder)
    tools = Path(sys.executable).parent  # cmake and ninja came with our own build
    cmake, build = str(tools / "cmake"), str(folder / "build")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    run(f"{_NAME}: configuring", [cmake, "-S", str(source), "-B", build, *generator, *_OPTIONS], folder)
    run(
        f"{_NAME}: compiling (about six minutes on two cores)",
        [cmake, "--build", build, "--target", "llama-server", "llama-quantize"],
        folder,
        {"CMAKE_BUILD_PARALLEL_LEVEL": os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))},
    )


def _unpacked(folder: Path) -> Path:
    """The source's folder inside the package that was fetched."""
    archive = next(folder.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "source", filter="data")
    archive.unlink()
    source = next((folder / "source").glob("*/vendor/llama.cpp"), None)
    if source is None:
        raise EngineUnavailable(f"{_SOURCE} holds no vendor/llama.cpp")
    return source
