"""What every front end does, whatever it speaks: one answer, one refusal, one way of being slow or of leaving."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.errors import ContextTooLong, InvalidRequest, Overloaded, RefusalReason, UnavailableError
from tailrace.service.api import Generation, Service, Standing, TextPrompt
from tailrace.service.late import LateService
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import FinishReason, SamplingParams
from tests.contract.front_ends.adapter import Answer, FrontEnd, Piece, Refused, Wish, counts, gathered
from tests.contract.front_ends.conftest import FRONT_ENDS
from tests.support.scripted_service import MODEL, ScriptedService, finish, token

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = "The family of Dashwood had long been settled in Sussex. Their estate was large, and"
GREEDY = Wish(PROMPT, max_tokens=24)
WISHES = {
    "greedy": GREEDY,
    "seeded": Wish(PROMPT, max_tokens=24, temperature=0.9, seed=11),
    "negative seed": Wish(PROMPT, max_tokens=8, temperature=0.9, seed=-5),
    "three choices": Wish(PROMPT, max_tokens=16, temperature=0.9, seed=4, n=3),
    "log probabilities": Wish(PROMPT, max_tokens=12, logprobs=2),
    "stop strings": Wish(PROMPT, max_tokens=60, stop=(" in", " of")),
    "one token": Wish(PROMPT, max_tokens=1),
    "text beyond ASCII": Wish("Señor — “naïve” ☃", max_tokens=12, temperature=0.9, seed=1),
}
WORDS = 3000
LONG = (*(token(f"{i:06d} and so on, " * 20) for i in range(WORDS)), finish(reason=FinishReason.LENGTH))


async def settled(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def said_by(service: Service, wish: Wish) -> Answer:
    """What the service says itself."""
    sampling = SamplingParams(wish.max_tokens, wish.temperature, num_logprobs=wish.logprobs)
    generation = Generation("direct", TextPrompt(wish.prompt), sampling, n=wish.n, stop=wish.stop, seed=wish.seed)
    answer = Answer()
    stream = await service.start(generation)
    async for delta in stream:
        answer.add(Piece.of_delta(delta))
    answer.usage = counts(stream.usage)
    return answer


async def refusal(front_end: FrontEnd, wish: Wish = GREEDY) -> Refused:
    with pytest.raises(Refused) as refused:
        await gathered(await front_end.start(wish))
    return refused.value


@pytest.mark.parametrize("name", WISHES)
async def test_an_answer_is_the_services_own_streamed_or_whole(computed: FrontEnd, model: Service, name: str) -> None:
    expected = await said_by(model, WISHES[name])
    answer = await gathered(await computed.start(WISHES[name]))
    assert sorted(answer.choices) == list(range(WISHES[name].n))
    for index, choice in answer.choices.items():
        wanted = expected.choices[index]
        assert (choice.text, choice.finish, choice.stop) == (wanted.text, wanted.finish, wanted.stop)
        assert choice.logprobs == pytest.approx(wanted.logprobs, abs=1e-5)
    assert answer.usage == expected.usage


async def test_many_answers_at_once_do_not_mix(computed: FrontEnd, model: Service) -> None:
    wishes = [Wish(PROMPT, max_tokens=12, temperature=0.9, seed=seed) for seed in range(12)]

    async def ask(wish: Wish) -> Answer:
        return await gathered(await computed.start(wish))

    answers = await asyncio.gather(*map(ask, wishes))
    assert [each.choices[0].text for each in answers] == [
        (await said_by(model, wish)).choices[0].text for wish in wishes
    ]


@pytest.mark.parametrize(
    ("wish", "param"),
    [
        (Wish("a", temperature=3.0), "temperature"),
        (Wish("a", top_p=-0.1), "top_p"),
        (Wish("a", top_p=1.1), "top_p"),
        (Wish("a", n=1000), "n"),
        (Wish("a", stop=("",)), "stop"),
        (Wish("a", stop=tuple("abcdefgh")), "stop"),
        (Wish("a", logprobs=99), "logprobs"),
    ],
)
async def test_what_is_out_of_range_is_refused_by_its_field(computed: FrontEnd, wish: Wish, param: str) -> None:
    refused = await refusal(computed, wish)
    assert refused.kind == "invalid"
    assert refused.param is not None
    assert param in refused.param


async def test_a_prompt_that_can_never_fit_is_too_long(computed: FrontEnd) -> None:
    assert (await refusal(computed, Wish("river " * 2000))).kind == "too long"


async def test_an_unknown_class_is_refused(computed: FrontEnd) -> None:
    assert (await refusal(computed, Wish("a", service_class="platinum"))).kind == "invalid"


@pytest.mark.parametrize(
    ("word", "name"), [("auto", "silver"), ("priority", "gold"), ("flex", "bronze"), ("bronze", "bronze")]
)
async def test_a_class_may_be_named_by_the_words_of_a_service_tier(
    scripted: FrontEnd, script: ScriptedService, word: str, name: str
) -> None:
    await gathered(await scripted.start(Wish("a", service_class=word)))
    assert script.generation.standing.class_name == name


async def test_who_sends_top_p_0_gets_the_best_token_however_hot(computed: FrontEnd) -> None:
    best = await gathered(await computed.start(Wish(PROMPT)))
    drawn = await gathered(await computed.start(Wish(PROMPT, temperature=2.0, top_p=0.0, seed=1)))
    assert drawn.choices[0].text == best.choices[0].text


async def test_class_and_tenant_reach_the_service(scripted: FrontEnd, script: ScriptedService) -> None:
    await gathered(await scripted.start(Wish("a", service_class="gold", tenant="acme")))
    assert script.generation.standing == Standing("gold", "acme")


async def test_what_readers_feel_is_counted_once(scripted: FrontEnd, metrics: Metrics) -> None:
    await gathered(await scripted.start(Wish("a", service_class="gold")))
    assert total(metrics, "tailrace_first_text_seconds_count") == 1
    assert total(metrics, 'tailrace_inter_token_latency_seconds_count{class="gold"}') == 1
    assert total(metrics, "tailrace_inter_token_latency_seconds_count") == 1


async def test_who_is_told_to_come_back_is_counted_by_class(
    scripted: FrontEnd, script: ScriptedService, metrics: Metrics
) -> None:
    script.start_step = Overloaded("the queue is full", retry_after_s=2.5)
    await refusal(scripted, Wish("a", service_class="bronze"))
    script.start_step, script.script = None, (Overloaded("late", retry_after_s=1, reason=RefusalReason.QUEUE_TIMEOUT),)
    await refusal(scripted, Wish("a", service_class="bronze"))
    for reason in ("queue_full", "queue_timeout"):
        assert total(metrics, f'tailrace_requests_refused_total{{class="bronze",reason="{reason}"}}') == 1
    assert total(metrics, "tailrace_requests_refused_total") == 2


def total(metrics: Metrics, sample: str) -> float:
    """The sum of the series that begin so."""
    lines = metrics.render("")[0].decode().splitlines()
    found = [line for line in lines if line.startswith((sample + " ", sample + "{"))]
    assert found, sample
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def test_an_overloaded_server_says_when_to_come_back(scripted: FrontEnd, script: ScriptedService) -> None:
    script.start_step = Overloaded("the queue is full", retry_after_s=2.5)
    refused = await refusal(scripted)
    assert (refused.kind, refused.retry_after_s) == ("overloaded", 2.5)


async def test_a_refusal_after_the_start_is_one_all_the_same(scripted: FrontEnd, script: ScriptedService) -> None:
    script.script = (Overloaded("waited for too long", retry_after_s=1.5),)
    refused = await refusal(scripted)
    assert (refused.kind, refused.retry_after_s) == ("overloaded", 1.5)


@pytest.mark.parametrize("error", [InvalidRequest("no", param="stop"), ContextTooLong("long", param="prompt")])
async def test_a_refusal_of_the_service_keeps_its_kind(
    error: InvalidRequest | ContextTooLong, scripted: FrontEnd, script: ScriptedService
) -> None:
    script.start_step = error
    assert (await refusal(scripted)).kind == ("invalid" if isinstance(error, InvalidRequest) else "too long")


@pytest.mark.parametrize("name", FRONT_ENDS)
async def test_who_asks_too_early_or_too_late_is_told_to_come_back(
    name: str, script: ScriptedService, metrics: Metrics, tmp_path: Path
) -> None:
    late = LateService(MODEL)
    async with FRONT_ENDS[name](late, metrics, tmp_path) as front_end:
        early = await refusal(front_end)
        late.arrive(script)
        assert (await gathered(await front_end.start(GREEDY))).choices[0].text == "Hello world"
        late.drain(30.0)
        ending = await refusal(front_end)
    assert (early.kind, ending.kind) == ("unavailable", "unavailable")
    assert early.retry_after_s == 1.0
    assert ending.retry_after_s is not None


async def test_a_server_that_is_not_ready_says_when_to_come_back(scripted: FrontEnd, script: ScriptedService) -> None:
    script.start_step = UnavailableError("loading", retry_after_s=1.0)
    refused = await refusal(scripted)
    assert (refused.kind, refused.retry_after_s) == ("unavailable", 1.0)


async def test_what_was_said_before_a_failure_is_heard(streamed: FrontEnd, script: ScriptedService) -> None:
    script.script = (token("Hello"), token(" world"), finish(reason=FinishReason.ERROR, error="the engine died"))
    pieces = aiter(await streamed.start(GREEDY))
    heard = ""
    while len(heard) < len("Hello world"):
        heard += (await anext(pieces)).text
    assert heard == "Hello world"
    with pytest.raises(Refused) as failed:
        await anext(pieces)
    assert failed.value.kind == "failed"


async def test_text_is_heard_as_soon_as_it_is_there(streamed: FrontEnd, script: ScriptedService) -> None:
    gate = asyncio.Event()
    script.script = (token("Hello"), gate, token(" world"), finish())
    answer = Answer()
    async for piece in await streamed.start(GREEDY):
        answer.add(piece)
        gate.set()
    assert answer.choices[0].text == "Hello world"


async def test_the_work_of_who_leaves_is_given_up(scripted: FrontEnd, script: ScriptedService) -> None:
    script.script = (asyncio.Event(),)
    reading = await scripted.start(GREEDY)
    await settled(lambda: bool(script.streams))
    await reading.leave()
    await settled(lambda: script.stream.num_closed > 0)


async def test_the_work_of_who_leaves_in_the_middle_is_given_up(streamed: FrontEnd, script: ScriptedService) -> None:
    script.script = (token("Hello"), asyncio.Event())
    reading = await streamed.start(GREEDY)
    await anext(aiter(reading))
    await reading.leave()
    await settled(lambda: script.stream.num_closed > 0)


async def test_a_slow_reader_is_waited_for_and_loses_nothing(streamed: FrontEnd, script: ScriptedService) -> None:
    script.script = LONG
    reading = await streamed.start(Wish("a", max_tokens=WORDS))
    pieces = aiter(reading)
    answer = Answer()
    answer.add(await anext(pieces))
    for _ in range(1000):
        await asyncio.sleep(0)
    other = await gathered(await streamed.start(Wish("b", max_tokens=WORDS)))
    assert script.streams[0].num_read < WORDS
    async for piece in pieces:
        answer.add(piece)
    assert answer.choices[0].text == other.choices[0].text == "".join(each.text for each in LONG)
