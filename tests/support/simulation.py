"""An engine without a device: a runner whose memory is a dict, and which notices every wrong block.

Each cell of the KV memory holds a digest of all tokens up to its position. A step reads the cells of all earlier
positions through the sequence's block table, as attention would, and compares them with the sequence's own tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.config import CompactionConfig
from tailrace.scheduler.plan import BlockCopy, BlockMove, SampledToken, SequenceSlice, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason, Level, Request, SamplingParams, TokenEvent
from tests.support.simulated_store import Faults, SimulatedStore

EOS_ID = 0


def restless(moves_a_step: int) -> CompactionConfig:
    """Blocks move whenever a chunk can be emptied, in every step."""
    return CompactionConfig(0.0, 0.0, 0.0, 0.0, urgent_moves_a_step=moves_a_step)


def model_token(seed: int, token_ids: list[int], vocabulary: int) -> int:
    """What the pretended model says after `token_ids`: a function of the seed and all tokens so far."""
    digest = blake2b(repr((seed, token_ids)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % vocabulary


def tokens_alone(request: Request, config: SchedulerConfig, vocabulary: int) -> list[int]:
    """The output of a request that has the machine for itself, by the rules and without a scheduler."""
    sampling = request.sampling
    token_ids = [*request.prompt_ids, *request.output_ids]
    while True:
        token_ids.append(model_token(sampling.seed, token_ids, vocabulary))
        num_output = len(token_ids) - request.num_prompt_tokens
        is_eos = token_ids[-1] in config.eos_ids and not sampling.ignore_eos
        is_stop = is_eos or token_ids[-1] in sampling.stop_token_ids
        if is_stop and num_output > sampling.min_tokens:
            return token_ids[request.num_prompt_tokens + len(request.output_ids) :]
        if num_output == sampling.max_tokens or len(token_ids) == config.max_model_tokens:
            return token_ids[request.num_prompt_tokens + len(request.output_ids) :]


@dataclass
class Row:
    """A sequence as the runner keeps it."""

    seed: int
    salt: str
    token_ids: list[int]
    digests: list[bytes] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)  # by place in the sequence; released ones are gone
    first_block: int = 0
    num_blocks: int = 0

    def move_blocks(self, part: SequenceSlice) -> None:
        first = self.first_block + part.num_released
        for index in range(self.first_block, first):
            self.blocks.pop(index, None)
        self.first_block = first
        self.num_blocks = max(self.num_blocks, first)
        for block_id in part.new_blocks:
            self.blocks[self.num_blocks] = block_id
            self.num_blocks += 1

    def digest(self, position: int) -> bytes:
        while len(self.digests) <= position:
            before = self.digests[-1] if self.digests else self.salt.encode()
            token = self.token_ids[len(self.digests)]
            self.digests.append(blake2b(before + token.to_bytes(4, "little"), digest_size=8).digest())
        return self.digests[position]


def make_request(
    request_id: str,
    prompt_ids: Iterable[int],
    max_tokens: int = 4,
    *,
    seed: int = 0,
    min_tokens: int = 0,
    ignore_eos: bool = False,
    stop_token_ids: tuple[int, ...] = (),
    arrival_s: float = 0.0,
    cache_salt: str = "",
    output_ids: tuple[int, ...] = (),
) -> Request:
    sampling = SamplingParams(
        max_tokens, seed=seed, min_tokens=min_tokens, ignore_eos=ignore_eos, stop_token_ids=stop_token_ids
    )
    return Request(request_id, tuple(prompt_ids), sampling, arrival_s, cache_salt, output_ids)


class CheckingRunner:
    """Runs plans on pretended memory and asserts that every cell read is the right one."""

    def __init__(self, kv: KvCacheConfig, vocabulary: int) -> None:
        self.num_computed_tokens = 0
        self.num_copied_tokens = 0
        self.num_moves = 0
        self._kv = kv
        self._vocabulary = vocabulary
        self.memory: dict[tuple[int, int], bytes] = {}
        self.committed: set[int] = set()  # blocks with memory
        self._rows: dict[str, Row] = {}
        self._salts: dict[str, str] = {}

    @property
    def running(self) -> set[str]:
        return set(self._rows)

    def know_salt(self, request: Request) -> None:
        self._salts[request.request_id] = request.cache_salt

    def run(self, plan: StepPlan) -> StepResult:
        self._commit(plan.committed)
        for request_id in plan.left:
            del self._rows[request_id]
        for entry in plan.entered:
            assert entry.request_id not in self._rows
            self._rows[entry.request_id] = Row(
                entry.sampling.seed, self._salts[entry.request_id], list(entry.token_ids)
            )
        assert len({part.request_id for part in plan.slices}) == len(plan.slices)
        for part in plan.slices:
            self._rows[part.request_id].move_blocks(part)
        for copy in plan.copies:
            self._copy(copy)
        self._relocate(plan.moves)
        self._release(plan.released)
        for part in plan.slices:
            self._write(part)
        for part in plan.slices:
            self._read(part)
        sampled = [self._sample(part) for part in plan.slices if part.is_sampled]
        return StepResult(plan.step_id, tuple(sampled))

    def _commit(self, runs: Sequence[range]) -> None:
        for block_id in (block_id for run in runs for block_id in run):
            assert block_id not in self.committed, f"block {block_id} gets memory twice"
            self.committed.add(block_id)

    def _release(self, runs: Sequence[range]) -> None:
        for block_id in (block_id for run in runs for block_id in run):
            self.committed.remove(block_id)
            for offset in range(self._kv.block_tokens):
                self.memory.pop((block_id, offset), None)

    def _relocate(self, moves: Sequence[BlockMove]) -> None:
        """What a block held is at its target from now on, and nowhere else."""
        touched = [block_id for move in moves for block_id in move]
        assert len(set(touched)) == len(touched), "a block is in two moves of a step"
        for source, target in moves:
            for offset in range(self._kv.block_tokens):
                self.memory.pop((target, offset), None)
                if (source, offset) in self.memory:
                    self.memory[target, offset] = self.memory.pop((source, offset))
        places = dict(moves)
        for row in self._rows.values():
            row.blocks = {index: places.get(block_id, block_id) for index, block_id in row.blocks.items()}
        self.num_moves += len(moves)

    def _copy(self, copy: BlockCopy) -> None:
        assert 0 < copy.num_tokens < self._kv.block_tokens
        for offset in range(self._kv.block_tokens):
            self.memory.pop((copy.target, offset), None)
            if offset < copy.num_tokens:
                self.memory[copy.target, offset] = self.memory[copy.source, offset]
        self.num_copied_tokens += copy.num_tokens

    def _write(self, part: SequenceSlice) -> None:
        row = self._rows[part.request_id]
        assert part.num_tokens > 0
        assert part.start + part.num_tokens <= len(row.token_ids)
        assert part.is_sampled == (part.start + part.num_tokens == len(row.token_ids))
        for position in range(part.start, part.start + part.num_tokens):
            self.memory[self._cell(row, position)] = row.digest(position)
        self.num_computed_tokens += part.num_tokens

    def _read(self, part: SequenceSlice) -> None:
        row, window = self._rows[part.request_id], self._kv.window_tokens
        first = 0 if window is None else max(part.start + 1 - window, 0)
        for position in range(first, part.start + part.num_tokens):
            assert self.memory.get(self._cell(row, position)) == row.digest(position), (part, position, row)

    def _sample(self, part: SequenceSlice) -> SampledToken:
        row = self._rows[part.request_id]
        row.token_ids.append(model_token(row.seed, row.token_ids, self._vocabulary))
        return SampledToken(part.request_id, row.token_ids[-1])

    def _cell(self, row: Row, position: int) -> tuple[int, int]:
        index, offset = divmod(position, self._kv.block_tokens)
        assert row.blocks[index] in self.committed, f"block {row.blocks[index]} is used without memory"
        return row.blocks[index], offset


class SimulatedEngine:
    """The step loop around a real scheduler, keeping what each request was sent."""

    def __init__(
        self,
        config: SchedulerConfig,
        kv: KvCacheConfig,
        vocabulary: int = 50,
        *,
        levels: tuple[Level, ...] = (),
        faults: Faults | None = None,
        seed: int = 0,
        cache: KvCache | None = None,
    ) -> None:
        self.config = config
        self.cache = cache or KvCache(kv)
        self.runner = CheckingRunner(kv, vocabulary)
        self.store = SimulatedStore(levels, self.runner.memory, kv.block_tokens, faults, seed)
        self.scheduler = Scheduler(config, self.cache, self.store)
        self.vocabulary = vocabulary
        self.requests: dict[str, Request] = {}
        self.outputs: dict[str, list[int]] = {}
        self.finished: dict[str, FinishReason] = {}
        self.events: dict[str, list[TokenEvent]] = {}
        self.now_s = 0.0
        self.tick_s = 1.0

    def add(self, request: Request) -> None:
        """It arrives now and after all that came before, unless it says when."""
        if not request.arrival_s:
            request = replace(request, arrival_s=self.now_s + 1e-6 * len(self.requests))
        self.scheduler.add(request)
        self.runner.know_salt(request)
        self.requests[request.request_id] = request
        self.outputs[request.request_id] = []
        self.events[request.request_id] = []

    def abort(self, request_id: str) -> None:
        event = self.scheduler.abort(request_id)
        assert (event is None) == (request_id in self.finished)
        if event is not None:
            assert event.finish_reason is FinishReason.ABORT
            self._publish((event,))

    def expire(self) -> None:
        self._publish(self.scheduler.expire(self.now_s))

    def step(self) -> StepPlan | None:
        plan = self.plan()
        if plan is not None:
            self.commit(self.runner.run(plan))
        return plan

    def plan(self) -> StepPlan | None:
        self.now_s += self.tick_s
        plan = self.scheduler.plan(self.now_s)
        if not self.store.num_pending:
            assert (plan is not None) == self.scheduler.has_work
        if plan is not None:
            assert plan.slices
            assert plan.num_tokens <= self.config.budget_tokens
            assert len(plan.slices) <= self.config.max_running
        return plan

    def commit(self, result: StepResult) -> None:
        self._publish(self.scheduler.commit(result, self.now_s))

    def run_to_end(self, max_steps: int = 10_000) -> list[StepPlan]:
        plans: list[StepPlan] = []
        for _ in range(max_steps):
            if (plan := self.step()) is not None:
                plans.append(plan)
            elif not self.scheduler.has_work and not self.store.num_pending:
                return plans
        raise AssertionError("the engine does not come to an end")

    def assert_outputs_as_alone(self) -> None:
        """Every request got exactly its tokens; an aborted one a beginning of them."""
        for request_id, request in self.requests.items():
            expected = tokens_alone(request, self.config, self.vocabulary)
            output = self.outputs[request_id]
            if self.finished.get(request_id) in (FinishReason.ABORT, FinishReason.ERROR, None):
                expected = expected[: len(output)]
            assert output == expected, request

    def assert_nothing_leaked(self) -> None:
        self.cache.check()
        assert self.cache.stats.num_used == 0
        assert not self.store.fetching
        assert not self.store.saving

    def _publish(self, events: Iterable[TokenEvent]) -> None:
        for event in events:
            assert event.request_id not in self.finished, "an event after the end"
            self.events[event.request_id].append(event)
            if event.token_id is not None:
                self.outputs[event.request_id].append(event.token_id)
            if event.finish_reason is not None:
                self.finished[event.request_id] = event.finish_reason
