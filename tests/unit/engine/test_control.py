"""What the engine answers between two steps, over a cache that requests have filled."""

import pytest

from tailrace.engine.control import CacheControl
from tailrace.kvcache.cache import KvCache, KvCacheConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead, Fetch, ForgetNotice, Lookup, LookupAnswer, Save, StoreAnswer
from tailrace.scheduler.below import LevelsBelow
from tailrace.types import (
    BlockTarget,
    CacheAnswer,
    Explain,
    Explanation,
    Invalidate,
    Invalidated,
    Level,
    MissReason,
    ModelTarget,
    PrefixReport,
    PromptTarget,
    Target,
    TenantTarget,
)

SYSTEM = tuple(range(100, 112))  # three blocks of four
FIRST = (*SYSTEM, *range(8))
SECOND = (*SYSTEM, *range(50, 58))


class Below:
    """Levels that take notes of what they are to forget, and answer lookups as they are told."""

    levels = (Level.HOST, Level.REDIS)
    due_s = None

    def __init__(self) -> None:
        self.forgets: list[Forget] = []
        self.holds: tuple[Level, ...] = ()  # of each block that is looked up, from the first on
        self.down: tuple[Level, ...] = ()
        self.elsewhere: BlockHead | None = None
        self.answers: list[StoreAnswer] = []

    def look_up(self, lookup: Lookup) -> None:
        levels = self.holds[: len(lookup.names)]
        self.answers.append(LookupAnswer(lookup.lookup_id, levels, self.down, self.elsewhere))

    def fetch(self, fetch: Fetch) -> None: ...

    def save(self, saves: tuple[Save, ...]) -> int:
        return 0

    def forget(self, forgets: tuple[Forget, ...]) -> None:
        self.forgets.extend(forgets)

    def take(self) -> list[StoreAnswer]:
        answers, self.answers = self.answers, []
        return answers

    def close(self) -> None: ...


class Desk:
    def __init__(self) -> None:
        self.cache = KvCache(KvCacheConfig(num_blocks=64, block_tokens=4, root_parts=("m",)))
        self.below = Below()
        self._levels = LevelsBelow(self.below, self.cache)
        self._replies: list[CacheAnswer] = []
        self._control = CacheControl(self.cache, self._levels, self._replies.append, iter(range(1000)).__next__)
        for salt in ("", "tenant"):
            for prompt in (FIRST, SECOND):
                self.compute(prompt, salt)

    def compute(self, prompt: tuple[int, ...], salt: str = "") -> None:
        table = self.cache.open(salt)
        assert self.cache.acquire(table, self.cache.match(table, prompt), len(prompt), spare=0) is not None
        self.cache.seal(table, prompt, len(prompt))
        self.cache.release(table)

    def explain(self, prompt: tuple[int, ...], salt: str = "") -> PrefixReport:
        """Of the prompt and one token more, with what the levels say."""
        return self.explained(prompt, salt).prefix

    def explained(self, prompt: tuple[int, ...], salt: str = "") -> Explanation:
        self._control.answer(Explain(7, (*prompt, 999), salt))
        self._levels.absorb(self.below.take())
        answer = self._replies.pop()
        assert isinstance(answer, Explanation)
        assert (answer.query_id, answer.num_prompt_tokens, answer.block_tokens) == (7, len(prompt) + 1, 4)
        return answer

    def num_cached(self, prompt: tuple[int, ...], salt: str = "") -> int:
        return self.explain(prompt, salt).num_cached_tokens

    def forget(self, target: Target) -> Invalidated:
        self._control.answer(Invalidate(8, target))
        answer = self._replies.pop()
        assert isinstance(answer, Invalidated)
        self.cache.check()
        return answer


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_what_is_cached_of_a_prompt_is_told_and_not_used(desk: Desk) -> None:
    before = desk.cache.stats
    assert desk.num_cached(FIRST) == 20
    assert desk.num_cached((*SYSTEM, 0, 1, 777)) == 14
    assert desk.num_cached(FIRST, "stranger") == 0
    assert desk.cache.stats == before


def test_the_levels_below_say_what_they_have_of_it(desk: Desk) -> None:
    prompt = (*FIRST, *range(300, 312))  # five blocks in the engine, three more
    desk.below.holds = (Level.HOST, Level.REDIS)
    report = desk.explain(prompt)
    assert report.num_tokens == ((Level.ENGINE, 20), (Level.HOST, 4), (Level.REDIS, 4))
    assert report.reason is MissReason.NEVER_SEEN
    desk.below.down = (Level.REDIS,)
    assert desk.explain(prompt).reason is MissReason.LEVEL_DOWN
    desk.below.holds = (Level.HOST,) * 3
    assert desk.explain(prompt) == PrefixReport(((Level.ENGINE, 20), (Level.HOST, 12)), None)


def test_a_block_that_a_level_has_for_others_is_told_to_the_operator(desk: Desk) -> None:
    owner = desk.cache.open("stranger").owner
    desk.below.elsewhere = BlockHead(b"", b"", owner.tenant, owner.fingerprint, b"")
    assert desk.explain(tuple(range(700, 720))).reason is MissReason.OTHER_SALT
    desk.below.elsewhere = BlockHead(b"", b"", owner.tenant, b"another model---", b"")
    assert desk.explain(tuple(range(700, 720))).reason is MissReason.OTHER_FINGERPRINT


def test_why_a_block_went_is_told(desk: Desk) -> None:
    desk.forget(PromptTarget(FIRST))
    assert desk.explain(FIRST).reason is MissReason.INVALIDATED
    assert desk.explain(FIRST, "tenant").reason is None


def test_what_others_forgot_until_now_is_not_told_as_cached(desk: Desk) -> None:
    desk.below.answers.append(ForgetNotice((Forget(Scope.TENANT, desk.cache.open("").owner.tenant),)))
    assert desk.num_cached(FIRST) == 0


def test_a_prompt_goes_with_all_that_continues_it_and_nothing_else(desk: Desk) -> None:
    desk.compute((*FIRST, *range(30, 38)))
    answer = desk.forget(PromptTarget(FIRST))

    assert answer.num_forgets == 5
    assert answer.num_dropped == ((Level.ENGINE, 7), (Level.HOST, None), (Level.REDIS, None))
    assert desk.num_cached(FIRST) == 0
    assert desk.num_cached(FIRST, "tenant") == 20
    desk.compute(SYSTEM)  # what others continue it with is still there
    assert desk.num_cached(SECOND) == 20
    assert desk.num_cached(FIRST) == 12


def test_a_tenant_goes_alone(desk: Desk) -> None:
    assert desk.forget(TenantTarget("tenant")).num_dropped[0] == (Level.ENGINE, 7)
    assert desk.num_cached(FIRST, "tenant") == 0
    assert desk.num_cached(FIRST) == 20


def test_all_of_the_served_model_goes_and_nothing_of_another(desk: Desk) -> None:
    assert desk.forget(ModelTarget(b"x" * 16)).num_dropped[0] == (Level.ENGINE, 0)
    assert desk.num_cached(FIRST) == 20
    assert desk.forget(ModelTarget()).num_dropped[0] == (Level.ENGINE, 14)
    assert desk.cache.stats.num_cached == 0


def test_a_block_goes_by_its_name(desk: Desk) -> None:
    table = desk.cache.open("")
    desk.cache.match(table, FIRST)
    assert desk.forget(BlockTarget(table.names[3])).num_dropped[0] == (Level.ENGINE, 1)
    assert desk.num_cached(FIRST) == 12


def test_a_prompt_shorter_than_a_block_has_no_name(desk: Desk) -> None:
    answer = desk.forget(PromptTarget(SYSTEM[:3]))
    assert (answer.num_forgets, answer.num_dropped[0], answer.block_tokens) == (0, (Level.ENGINE, 0), 4)
    assert desk.below.forgets == []


def test_the_levels_below_are_told_what_the_engine_forgot(desk: Desk) -> None:
    owner = desk.cache.open("tenant").owner
    assert desk.forget(TenantTarget("tenant")).version == 1
    assert desk.forget(ModelTarget()).version == 2
    assert desk.below.forgets == [Forget(Scope.TENANT, owner.tenant), Forget(Scope.FINGERPRINT, owner.fingerprint)]
    assert desk.forget(PromptTarget(SYSTEM)).version == 5
    assert [forget.scope for forget in desk.below.forgets[2:]] == [Scope.PREFIX, Scope.BLOCK, Scope.BLOCK]


def test_the_time_taken_is_told(desk: Desk) -> None:
    assert desk.forget(ModelTarget()).took_s == 1


def test_an_explanation_names_the_whole_blocks_and_the_model(desk: Desk) -> None:
    prompt = FIRST[: len(FIRST) // 4 * 4]
    explained = desk.explained(prompt)
    assert len(explained.names) == (len(prompt) + 1) // 4
    desk.forget(BlockTarget(explained.names[0]))
    assert desk.num_cached(prompt) == 0
    desk.compute(prompt)
    desk.forget(ModelTarget(explained.fingerprint))
    assert desk.explain(prompt).reason is MissReason.INVALIDATED
