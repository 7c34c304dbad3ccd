"""The workloads that serving is measured with: greedy, end-of-sequence ignored."""

from dataclasses import dataclass

from tailrace.bench.workload import Workload

__all__ = ["LARGE_WORKLOADS", "WORKLOADS", "ServingWorkload"]


@dataclass(frozen=True, slots=True)
class ServingWorkload:
    name: str
    what: str
    concurrency: int
    num_requests: int
    prompt_tokens: int
    output_tokens: int = 128
    shared_prefix_tokens: int = 0

    def requests(self, seed: int) -> Workload:
        """Its requests; another seed gives other prompts."""
        return Workload(self.num_requests, self.prompt_tokens, self.output_tokens, self.shared_prefix_tokens, seed=seed)


WORKLOADS = (
    ServingWorkload("W1", "1 stream, prompt 128", 1, 8, 128),
    ServingWorkload("W2", "8 streams, prompt 256", 8, 32, 256),
    ServingWorkload("W3", "16 streams, prompt 512, 384 shared", 16, 48, 512, shared_prefix_tokens=384),
    ServingWorkload("W4", "32 streams, prompt 128", 32, 64, 128),
    ServingWorkload("W5", "prefill, prompt 1,500", 1, 6, 1500, output_tokens=1),
)

# For models that take a second for a few tokens: how fast a prompt and a stream are by themselves, then together.
LARGE_WORKLOADS = (
    ServingWorkload("L1", "1 stream, prompt 512", 1, 4, 512, output_tokens=64),
    ServingWorkload("L2", "8 streams, prompt 128", 8, 16, 128, output_tokens=64),
)
