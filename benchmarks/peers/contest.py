"""What a comparison consists of: who can take part, under which loads, and what we want to reach."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.peers.aims import AIMS, LARGE_AIMS, Aim
from benchmarks.serving.workloads import LARGE_WORKLOADS, WORKLOADS, ServingWorkload

__all__ = ["OF_A_FILE", "OF_THE_DEFAULT_MODEL", "Contest"]


@dataclass(frozen=True, slots=True)
class Contest:
    peers: Sequence[str]
    workloads: Sequence[ServingWorkload]
    aims: Sequence[Aim]

    @property
    def workload_names(self) -> list[str]:
        return [workload.name for workload in self.workloads]

    def unknown(self, peers: Iterable[str], workloads: Iterable[str]) -> list[str]:
        """Which of these are not part of it."""
        return sorted({*peers} - {*self.peers} | {*workloads} - {*self.workload_names})


OF_THE_DEFAULT_MODEL = Contest(("llama.cpp", "openvino-int4", "openvino-int8", "transformers", "vllm"), WORKLOADS, AIMS)
OF_A_FILE = Contest(("llama.cpp",), LARGE_WORKLOADS, LARGE_AIMS)  # whoever runs a GGUF file as it is
