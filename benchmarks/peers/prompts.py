"""The prompts that every engine gets: written once a load, of an exact length by the model's own tokenizer."""

import asyncio

from benchmarks.peers.engine import Load
from benchmarks.serving.workloads import ServingWorkload
from tailrace.bench.prompts import Lexicon, PromptSet, draft, fit, learn_lexicon
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["PromptWriter"]


class PromptWriter:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tokenizer = Tokenizer.from_source(
            checkpoint.tokenizer,
            bos_id=checkpoint.bos_id,
            eos_ids=checkpoint.eos_ids,
            add_bos=checkpoint.add_bos,
        )
        self._lexicon = asyncio.run(learn_lexicon(self._tokenize))

    def load(self, workload: ServingWorkload, seed: int) -> Load:
        """A workload with prompts that no other seed gives, and a wave of others to warm up with."""
        count = workload.num_requests + workload.concurrency
        return Load(workload, asyncio.run(self._write(workload, seed, count, self._lexicon)), seed)

    async def _write(self, workload: ServingWorkload, seed: int, count: int, lexicon: Lexicon) -> PromptSet:
        requests = workload.requests(seed)
        drafts = (draft(requests, lexicon, index) for index in range(count))
        written = [await fit(words, workload.prompt_tokens, self._tokenize) for words in drafts]
        return PromptSet([text for text, _ in written], all(is_exact for _, is_exact in written))

    async def _tokenize(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, allow_control=True)
