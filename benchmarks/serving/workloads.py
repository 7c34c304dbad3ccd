"""The five workloads that serving is measured with. Greedy, 128 output tokens, end-of-sequence ignored."""

from dataclasses import dataclass

from tailrace.bench.workload import Workload

__all__ = ["WORKLOADS", "ServingWorkload"]


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
