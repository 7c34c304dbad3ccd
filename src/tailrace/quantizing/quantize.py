"""Quantises a model into a new file or directory: measure, make, read it back, measure again, and only then name it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import SetupError
from tailrace.quantizing.awq import Awq
from tailrace.quantizing.calibration import calibrated
from tailrace.quantizing.directory_output import directory_output
from tailrace.quantizing.forward import TokenIds
from tailrace.quantizing.gguf_output import gguf_output
from tailrace.quantizing.gptq import Gptq
from tailrace.quantizing.output_place import taking_shape
from tailrace.quantizing.perplexity import foretell, perplexity
from tailrace.quantizing.plan import Target, Width, make_plan
from tailrace.quantizing.rounding import rounded
from tailrace.quantizing.source import Source, open_source
from tailrace.quantizing.text import HELD_OUT_TOKENS, TextReader
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tailrace.weights.stored import FileTensor

__all__ = ["Job", "Method", "Progress", "QuantizeReport", "default_output", "quantize"]

Method = Literal["rtn", "awq", "gptq"]
Progress = Callable[[str, int, int], None]  # what is being done, how much of it, of how much


@dataclass(frozen=True, slots=True)
class Job:
    """What is wanted. Without `held_out_tokens` no perplexity is measured."""

    to: Width
    method: Method = "rtn"
    calibration: Path | None = None
    held_out_tokens: int = HELD_OUT_TOKENS


@dataclass(frozen=True, slots=True)
class QuantizeReport:
    """What was made, and what it costs. Perplexities are of a text that no method has seen."""

    model: str
    output: str
    to: Width
    method: Method
    source_bytes: int
    output_bytes: int
    perplexity_before: float | None
    perplexity_after: float | None
    held_out_tokens: int  # that were foretold
    calibration_tokens: int
    seconds: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Output(Protocol):
    def write(self, name: str, tensor: FileTensor) -> None: ...


def default_output(checkpoint: Checkpoint, job: Job) -> Path:
    """A name in the present directory that says what the model is and how it was made."""
    method = "" if job.method == "rtn" else f"-{job.method}"
    name = f"{checkpoint.name.rpartition('/')[2]}-{job.to}{method}"
    return Path(name if checkpoint.source.is_dir() else f"{name}.gguf")


def quantize(
    checkpoint: Checkpoint, job: Job, output: Path, progress: Progress, *, may_replace: bool = False
) -> QuantizeReport:
    """Write `checkpoint` narrower to `output`. Raises ModelError, or SetupError; then nothing is left of the output."""
    started_s = time.monotonic()
    if job.calibration is not None and job.method == "rtn":
        raise SetupError("rounding to nearest looks at no text: give --calibrate with --method awq or gptq")
    source = open_source(checkpoint)
    plan = make_plan(source, job.to, is_scaling=job.method == "awq")
    work = _Work.of(source, job)
    with taking_shape(output, may_replace=may_replace, source=source.path) as part:
        before = _foretold(source, job, partial(progress, "Reading the held-out text"))
        with _open_output(part, source, plan) as out:
            for name, tensor in work.tensors(source, plan, partial(progress, "Quantising")):
                out.write(name, tensor)
        made = open_source(open_checkpoint(str(part)))
        after = _foretold(made, job, partial(progress, "Reading the held-out text again"))
    return QuantizeReport(
        model=checkpoint.name,
        output=str(output),
        to=job.to,
        method=job.method,
        source_bytes=checkpoint.stored_bytes,
        output_bytes=made.checkpoint.stored_bytes,
        perplexity_before=perplexity(before) if before.size else None,
        perplexity_after=perplexity(after) if after.size else None,
        held_out_tokens=after.size,
        calibration_tokens=work.num_tokens,
        seconds=time.monotonic() - started_s,
        notes=work.notes,
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """A method with the text it looks at; without either, rounding to nearest."""

    method: Awq | Gptq | None = None
    token_ids: TokenIds | None = None

    @classmethod
    def of(cls, source: Source, job: Job) -> "_Work":
        match job.method:
            case "rtn":
                return cls()
            case "gptq":
                return cls(Gptq(), TextReader.of(source.checkpoint).calibration(job.calibration))
            case "awq":
                return cls(Awq(), TextReader.of(source.checkpoint).calibration(job.calibration))

    def tensors(
        self, source: Source, plan: Mapping[str, Target], progress: Callable[[int, int], None]
    ) -> Iterator[tuple[str, FileTensor]]:
        if self.method is None or self.token_ids is None:
            return rounded(source, plan, progress)
        return calibrated(source, plan, self.token_ids, self.method, progress)

    @property
    def num_tokens(self) -> int:
        return 0 if self.token_ids is None else self.token_ids.size

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.method is None else self.method.notes


def _open_output(path: Path, source: Source, plan: Mapping[str, Target]) -> AbstractContextManager[_Output]:
    return directory_output(path, source, plan) if source.is_directory else gguf_output(path, source, plan)


def _foretold(source: Source, job: Job, progress: Callable[[int, int], None]) -> NDArray[np.float64]:
    """Log probabilities of the held-out text; of nothing, where nobody asked."""
    if not job.held_out_tokens:
        return np.empty(0)
    token_ids = TextReader.of(source.checkpoint).held_out(job.held_out_tokens)
    return foretell(source.program, source.reader(), token_ids, progress)
