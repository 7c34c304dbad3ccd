"""An engine without a device: a runner whose memory is a dict, and which notices every wrong block.

Each cell of the KV memory holds a digest of all tokens up to its position. A step reads the cells of all earlier
positions through the sequence's block table, as attention would, and compares them with the sequence's own tokens.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.scheduler.plan import SampledToken, SequenceSlice, StepPlan, StepResult
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.types import FinishReason, Request, SamplingParams, TokenEvent

EOS_ID = 0


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
        self._kv = kv
        self._vocabulary = vocabulary
        self._memory: dict[tuple[int, int], bytes] = {}
        self._rows: dict[str, Row] = {}
        self._salts: dict[str, str] = {}

    @property
    def running(self) -> set[str]:
        return set(self._rows)

    def know_salt(self, request: Request) -> None:
        self._salts[request.request_id] = request.cache_salt

    def run(self, plan: StepPlan) -> StepResult:
        for request_id in plan.left:
            del self._rows[request_id]
        for entry in plan.entered:
            assert entry.request_id not in self._rows
            self._rows[entry.request_id] = Row(
                entry.sampling.seed, self._salts[entry.request_id], list(entry.token_ids)
            )
        assert len({part.request_id for part in plan.slices}) == len(plan.slices)
        for part in plan.slices:
            self._write(part)
        for part in plan.slices:
            self._read(part)
        sampled = [self._sample(part) for part in plan.slices if part.is_sampled]
        return StepResult(plan.step_id, tuple(sampled))

    def _write(self, part: SequenceSlice) -> None:
        row = self._rows[part.request_id]
        row.move_blocks(part)
        assert part.num_tokens > 0
        assert part.start + part.num_tokens <= len(row.token_ids)
        assert part.is_sampled == (part.start + part.num_tokens == len(row.token_ids))
        for position in range(part.start, part.start + part.num_tokens):
            self._memory[self._cell(row, position)] = row.digest(position)
        self.num_computed_tokens += part.num_tokens

    def _read(self, part: SequenceSlice) -> None:
        row, window = self._rows[part.request_id], self._kv.window_tokens
        first = 0 if window is None else max(part.start + 1 - window, 0)
        for position in range(first, part.start + part.num_tokens):
            assert self._memory.get(self._cell(row, position)) == row.digest(position), (part, position, row)

    def _sample(self, part: SequenceSlice) -> SampledToken:
        row = self._rows[part.request_id]
        row.token_ids.append(model_token(row.seed, row.token_ids, self._vocabulary))
        return SampledToken(part.request_id, row.token_ids[-1])

    def _cell(self, row: Row, position: int) -> tuple[int, int]:
        index, offset = divmod(position, self._kv.block_tokens)
        return row.blocks[index], offset


class SimulatedEngine:
    """The step loop around a real scheduler, keeping what each request was sent."""

    def __init__(self, config: SchedulerConfig, kv: KvCacheConfig, vocabulary: int = 50) -> None:
        self.config = config
        self.cache = KvCache(kv)
        self.scheduler = Scheduler(config, self.cache)
        self.runner = CheckingRunner(kv, vocabulary)
        self.vocabulary = vocabulary
        self.requests: dict[str, Request] = {}
        self.outputs: dict[str, list[int]] = {}
        self.finished: dict[str, FinishReason] = {}
        self.events: dict[str, list[TokenEvent]] = {}
        self.now_s = 0.0

    def add(self, request: Request) -> None:
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

    def step(self) -> StepPlan | None:
        plan = self.plan()
        if plan is not None:
            self.commit(self.runner.run(plan))
        return plan

    def plan(self) -> StepPlan | None:
        self.now_s += 1.0
        plan = self.scheduler.plan(self.now_s)
        assert (plan is not None) == self.scheduler.has_work
        if plan is not None:
            assert plan.slices
            assert plan.num_tokens <= self.config.budget_tokens
            assert len(plan.slices) <= self.config.max_running
        return plan

    def commit(self, result: StepResult) -> None:
        self._publish(self.scheduler.commit(result, self.now_s))

    def run_to_end(self, max_steps: int = 10_000) -> list[StepPlan]:
        plans: deque[StepPlan] = deque()
        while (plan := self.step()) is not None:
            plans.append(plan)
            assert len(plans) < max_steps, "the engine does not come to an end"
        return list(plans)

    def assert_outputs_as_alone(self) -> None:
        """Every request got exactly its tokens; an aborted one a beginning of them."""
        for request_id, request in self.requests.items():
            expected = tokens_alone(request, self.config, self.vocabulary)
            output = self.outputs[request_id]
            if self.finished.get(request_id) is FinishReason.ABORT or request_id not in self.finished:
                expected = expected[: len(output)]
            assert output == expected, request

    def assert_nothing_leaked(self) -> None:
        self.cache.check()
        assert self.cache.stats.num_used == 0

    def _publish(self, events: Iterable[TokenEvent]) -> None:
        for event in events:
            assert event.request_id not in self.finished, "an event after the end"
            self.events[event.request_id].append(event)
            if event.token_id is not None:
                self.outputs[event.request_id].append(event.token_id)
            if event.finish_reason is not None:
                self.finished[event.request_id] = event.finish_reason
