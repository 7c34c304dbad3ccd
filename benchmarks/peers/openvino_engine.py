"""OpenVINO GenAI's continuous batching, in process: there is no server in its packages, so its figures hold no HTTP.

It could read a GGUF file, but gets the weights through its own converter, in the groups that its kernels are made for.
"""

import json
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.peers.engine import Description, EngineUnavailable, Load, checked
from benchmarks.peers.weights import Weights
from benchmarks.peers.workshop import Workshop, run
from tailrace.bench.load import LoadRun, Sample
from tailrace.bench.report import Report, RunInfo, make_report
from tailrace.bench.stream import Streamed
from tailrace.bench.workload import Arrivals

__all__ = ["InProcess", "OpenVino", "load_run"]

_GENAI = ("openvino-genai==2026.4.1.0", "openvino-tokenizers==2026.4.1.0")
_CONVERTER = ("torch==2.13.0", "optimum-intel==2.2.0", "nncf==3.4.0", "openvino==2026.4.1", _GENAI[1])
_UNLOADABLE = ("torchvision",)  # what pip chooses for the converter does not load beside torch for the CPU
_WEIGHTS = {
    "int4": ("--weight-format", "int4", "--group-size", "64"),  # the widest group that divides a row of 576
    "int8": ("--weight-format", "int8"),
}
_SCHEDULER = {
    "cache_size": 2,
    "max_num_batched_tokens": 1024,
    "max_num_seqs": 64,
    "enable_prefix_caching": True,
    "dynamic_split_fuse": True,
}
_DRIVER = Path(__file__).with_name("openvino_driver.py")
_TIMEOUT_S = 1800.0


class _Answer(msgspec.Struct):
    sent_s: float
    prompt_tokens: int
    chunk_s: list[float]
    output_tokens: int
    ended_s: float


class _Result(msgspec.Struct):
    started_s: float
    ended_s: float
    answers: list[_Answer]


@dataclass(frozen=True, slots=True)
class InProcess:
    """The driver in a process of its own for each load. `job`: all that it needs to know but the load."""

    python: str
    model: Path
    job: dict[str, Any]
    folder: Path

    def measure(self, load: Load) -> Report:
        """Start, warm up, measure, stop. Raises EngineUnavailable."""
        date = datetime.now(UTC).isoformat(timespec="seconds")
        offered = load_run(self._drive(load))
        workload = load.workload
        info = RunInfo(
            url="in process",
            model=self.model.name,
            workload=workload.requests(load.seed),
            arrivals=Arrivals(workload.concurrency),
            date=date,
            label=workload.name,
            is_exact=load.prompts.is_exact,
        )
        return checked(load, make_report(info, offered, {}, client_cpu_s=0.0))

    def _drive(self, load: Load) -> bytes:
        """What the driver wrote."""
        workload, prompts = load.workload, load.prompts.prompts
        job = self.job | {
            "concurrency": workload.concurrency,
            "output_tokens": workload.output_tokens,
            "prompts": prompts[: workload.num_requests],
            "warmup": prompts[workload.num_requests :],
        }
        job_file, result_file = self.folder / "job.json", self.folder / "result.json"
        job_file.write_text(json.dumps(job))
        command = [self.python, str(_DRIVER), str(self.model), str(job_file), str(result_file)]
        log = self.folder / "driver.log"
        try:
            with log.open("wb") as output:
                subprocess.run(command, stdout=output, stderr=output, timeout=_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise EngineUnavailable(f"{error} (its messages: {log})") from error
        return result_file.read_bytes()


def load_run(result: bytes) -> LoadRun:
    """What the driver wrote, as the load client would have recorded it."""
    read = msgspec.json.decode(result, type=_Result)
    streams = (
        Streamed(
            sent_s=answer.sent_s,
            chunk_s=answer.chunk_s,
            ended_s=answer.ended_s,
            prompt_tokens=answer.prompt_tokens,
            output_tokens=answer.output_tokens,
            finish_reason="length",
        )
        for answer in read.answers
    )
    return LoadRun([Sample(0.0, streamed) for streamed in streams], read.started_s, read.ended_s)


@dataclass(frozen=True, slots=True)
class OpenVino:
    workshop: Workshop
    weights: Weights
    threads: int
    format: Literal["int4", "int8"]
    max_rounds: int | None = None

    @property
    def name(self) -> str:
        return f"openvino-{self.format}"

    def prepare(self) -> tuple[Description, InProcess]:
        """Install it, and convert the weights in another venv: the converter needs torch. Raises EngineUnavailable."""
        venv = self.workshop.venv("openvino", *_GENAI)
        properties = {"INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY"}
        settings = {**_SCHEDULER, **properties}
        description = Description(
            venv.versions("openvino", "openvino-genai"),
            " ".join(("optimum-intel", *_WEIGHTS[self.format])),
            "in process; " + " ".join(f"{name}={value}" for name, value in settings.items()),
        )
        job = {"scheduler": _SCHEDULER, "properties": properties}
        runner = InProcess(venv.program("python"), self._converted(), job, self.workshop.scratch("openvino-runs"))
        return description, runner

    def _converted(self) -> Path:
        def make(folder: Path) -> None:
            converter = self.workshop.venv("openvino-converter", *_CONVERTER, without=_UNLOADABLE)
            source = ("--model", str(self.weights.hf_directory()), "--task", "text-generation-with-past")
            export = [
                converter.program("optimum-cli"),
                "export",
                "openvino",
                *source,
                *_WEIGHTS[self.format],
                str(folder),
            ]
            run(f"{self.name}: converting the weights", export, folder, {"HF_HUB_OFFLINE": "1"})

        recipe = " ".join((*_CONVERTER, *_WEIGHTS[self.format], self.weights.fingerprint))
        return self.workshop.folder(f"{self.name}-weights", recipe, make)
