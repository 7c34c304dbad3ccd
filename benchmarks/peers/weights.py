"""The one set of weights that every engine runs, up to the rounding of its own format."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.hf_directory import write_hf_directory
from benchmarks.peers.progress import working
from benchmarks.peers.workshop import Workshop
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["Weights"]


@dataclass(frozen=True, slots=True)
class Weights:
    workshop: Workshop
    checkpoint: Checkpoint

    @property
    def fingerprint(self) -> str:
        return self.checkpoint.fingerprint

    @property
    def formats(self) -> str:
        """The types of the tensors in the file."""
        return ", ".join(sorted(set(self.checkpoint.stored_formats.values())))

    @property
    def gguf(self) -> Path:
        """The file that we serve ourselves."""
        return self.checkpoint.source

    def hf_directory(self) -> Path:
        """The same as a Hugging Face directory in bfloat16, written first where it is not there yet."""

        def make(folder: Path) -> None:
            with working("writing the weights in bfloat16"):
                write_hf_directory(self.checkpoint, folder)

        return self.workshop.folder("weights-bf16", self.fingerprint, make)
