"""A server in shared memory, used like an engine in this process."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from tailrace.client.client import Client, ClientOptions
from tailrace.client.options import Call, Completion, PromptLike
from tailrace.errors import EngineError, InvalidRequest, Overloaded, SetupError, UnavailableError
from tailrace.frontends.shm.layout import NUM_LANES
from tailrace.service.api import (
    ChatPrompt,
    Generation,
    InfillPrompt,
    OutputFormat,
    OutputKind,
    TextPrompt,
    ToolMode,
    Usage,
)
from tailrace.types import FinishReason, SamplingParams
from tests.support.killed import forked
from tests.support.scripted_service import ScriptedService, Step, call, finish, thought, token
from tests.support.shm_server import TIMEOUT_S, ShmServer, serving


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def server(service: ScriptedService, tmp_path: Path) -> Iterator[ShmServer]:
    with serving(service, tmp_path) as server:
        yield server


@pytest.fixture
def client(server: ShmServer) -> Iterator[Client]:
    with server.connect() as client:
        yield client


def said_back(generation: Generation) -> list[Step]:
    """The prompt, a character a token."""
    assert isinstance(generation.prompt, TextPrompt)
    return [*(token(character) for character in generation.prompt.text), finish()]


def test_text_comes_as_it_is_computed(service: ScriptedService, client: Client) -> None:
    stream = client.stream("Hi")
    assert stream.usage == Usage(7, 0, 0)
    texts = iter(stream)
    assert next(texts) == "Hello"
    assert (stream.usage.completion_tokens, stream.finish_reason) == (1, None)
    assert list(texts) == [" world"]
    assert stream.finish_reason is FinishReason.STOP
    assert stream.usage == service.stream.usage
    assert list(stream) == []


async def test_text_comes_on_an_event_loop_too(service: ScriptedService, client: Client) -> None:
    stream = await client.astream("Hi")
    assert [text async for text in stream] == ["Hello", " world"]
    assert stream.usage == service.stream.usage
    assert [text async for text in stream] == []


async def test_a_stream_that_was_begun_without_a_loop_can_be_read_on_one(client: Client) -> None:
    stream = await asyncio.to_thread(client.stream, "Hi")
    assert [text async for text in stream] == ["Hello", " world"]


def test_streams_of_many_threads_and_loops_pass_each_other(service: ScriptedService, client: Client) -> None:
    service.script_of = said_back
    prompts = [f"{i} " * 50 for i in range(24)]
    texts: dict[str, str] = {}

    def read(prompt: str) -> None:
        texts[prompt] = "".join(client.stream(prompt))

    async def aread(prompt: str) -> None:
        texts[prompt] = "".join([text async for text in await client.astream(prompt)])

    async def aread_all(some: list[str]) -> None:
        await asyncio.gather(*map(aread, some))

    threads = [threading.Thread(target=read, args=(prompt,)) for prompt in prompts[:8]]
    threads += [threading.Thread(target=asyncio.run, args=(aread_all(prompts[i : i + 8]),)) for i in (8, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert texts == {prompt: prompt for prompt in prompts}


def test_all_options_reach_the_server(service: ScriptedService, client: Client) -> None:
    options = ClientOptions(
        max_tokens=5,
        temperature=0.5,
        logit_bias={3: 1.0},
        stop="x",
        stop_token_ids=(4,),
        seed=9,
        n=2,
        logprobs=1,
        service_class="gold",
        tenant="me",
    )
    client.stream("Hi", **options).close()
    generation = service.generation
    assert generation.sampling == SamplingParams(5, 0.5, logit_bias=((3, 1.0),), stop_token_ids=(4,), num_logprobs=1)
    assert (generation.stop, generation.seed, generation.n) == (("x",), 9, 2)
    assert (generation.standing.class_name, generation.standing.tenant) == ("gold", "me")


def test_a_prompt_is_text_or_messages_or_what_lacks_its_middle(service: ScriptedService, client: Client) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    client.stream("Hi").close()
    client.stream(messages).close()
    client.stream("a", suffix="c").close()
    prompts = [generation.prompt for generation in service.generations]
    assert prompts == [TextPrompt("Hi"), ChatPrompt(messages), InfillPrompt("a", "c")]


LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
MIXED: list[Step] = [
    *(thought("Hm"), thought("m."), token("I look."), call(0, name="look"), call(0, "{}"), call(1, "{", name="look")),
    *(call(1, "}"), finish(reason=FinishReason.TOOL_CALLS)),
]
CALLS = (Call("look", "{}", "call_0_0"), Call("look", "{}", "call_0_1"))


def test_tools_thinking_and_formats_reach_the_server(service: ScriptedService, client: Client) -> None:
    options = ClientOptions(tools=[LOOK], tool_choice="required", thinking=True, reasoning_effort="high")
    options["response_format"] = {"type": "json_object"}
    client.stream(QUESTION, **options).close()
    prompt = service.generation.prompt
    assert isinstance(prompt, ChatPrompt)
    assert [tool.name for tool in prompt.tools] == ["look"]
    assert (prompt.tool_choice.mode, prompt.thinking, prompt.effort) == (ToolMode.REQUIRED, True, "high")
    assert service.generation.output_format == OutputFormat(OutputKind.JSON_OBJECT)


def test_reasoning_and_calls_come_beside_the_text(service: ScriptedService, client: Client) -> None:
    service.script = MIXED
    stream = client.stream(QUESTION, tools=[LOOK])
    assert list(stream) == ["I look."]
    assert (stream.reasoning, stream.calls, stream.finish_reason) == ("Hmm.", CALLS, FinishReason.TOOL_CALLS)
    assert stream.usage.reasoning_tokens == 2
    assert list(client.stream(QUESTION, tools=[LOOK]).deltas()) == MIXED


async def test_reasoning_and_calls_come_on_an_event_loop_too(service: ScriptedService, client: Client) -> None:
    service.script = MIXED
    stream = await client.astream(QUESTION, tools=[LOOK])
    assert [text async for text in stream] == ["I look."]
    assert (stream.reasoning, stream.calls) == ("Hmm.", CALLS)


def test_a_completion_has_them_too_and_goes_on_as_a_message(service: ScriptedService, client: Client) -> None:
    service.script = MIXED
    (completion,) = client.generate(QUESTION, tools=[LOOK])
    assert (completion.text, completion.reasoning, completion.calls) == ("I look.", "Hmm.", CALLS)
    results = [{"role": "tool", "content": "sunny", "tool_call_id": each.call_id} for each in completion.calls]
    client.generate([*QUESTION, completion.message, *results], tools=[LOOK])
    prompt = service.generations[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hmm.",
        "tool_calls": completion.message["tool_calls"],
    }
    assert [message["role"] for message in prompt.messages] == ["user", "assistant", "tool", "tool"]


def test_an_unknown_option_is_an_error_of_the_program(client: Client) -> None:
    with pytest.raises(TypeError, match="best_of"):
        client.stream("Hi", best_of=2)  # type: ignore[call-arg]  # as a program without a checker says it


def test_an_option_that_cannot_be_sent_is_refused_and_takes_no_lane(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="cannot be sent"):
        client.stream("Hi", stop=[object()])  # type: ignore[list-item]
    assert list(client.stream("Hi")) == ["Hello", " world"]


@pytest.mark.parametrize("prompts", ["Hi", [{"role": "user", "content": "Hi"}], ["Hi"]])
def test_one_answer_is_a_batch_of_one(
    prompts: PromptLike | list[PromptLike], service: ScriptedService, client: Client
) -> None:
    completions = client.generate(prompts)
    assert completions == [Completion("Hello world", (1, 1), FinishReason.STOP, service.stream.usage)]


def test_a_batch_of_any_size_comes_back_in_order(service: ScriptedService, client: Client) -> None:
    service.script_of = said_back
    prompts = [f"prompt {i}" for i in range(200)]
    assert [completion.text for completion in client.generate(prompts)] == prompts


async def test_a_batch_may_be_waited_for_on_a_loop_or_not(client: Client) -> None:
    assert [each.text for each in await client.agenerate(["a", "b"])] == ["Hello world"] * 2
    assert [each.text for each in client.generate(["a", "b"])] == ["Hello world"] * 2


def test_what_a_batch_has_no_room_for_is_asked_again(service: ScriptedService, client: Client) -> None:
    refused: set[str] = set()

    def refuse_once(generation: Generation) -> list[Step]:
        assert isinstance(generation.prompt, TextPrompt)
        if generation.prompt.text not in refused:
            refused.add(generation.prompt.text)
            raise Overloaded("later", retry_after_s=0.0)
        return said_back(generation)

    service.script_of = refuse_once
    assert [each.text for each in client.generate(["a", "b"])] == ["a", "b"]
    assert refused == {"a", "b"}


def test_the_first_failure_of_a_batch_ends_all(service: ScriptedService, client: Client) -> None:
    never = asyncio.Event()

    def fails_at_last(generation: Generation) -> list[Step]:
        is_last = generation.prompt == TextPrompt("4")
        return [finish(reason=FinishReason.ERROR, error="the engine died")] if is_last else [token("a"), never]

    service.script_of = fails_at_last
    with pytest.raises(EngineError, match="the engine died"):
        client.generate(list("01234"))
    for _ in range(5):
        assert service.closings.acquire(timeout=TIMEOUT_S)


def test_a_stream_that_is_dropped_anywhere_is_left(service: ScriptedService, client: Client) -> None:
    service.script = (token("Hi"), asyncio.Event())
    stream = client.stream("Hi")
    with client._link._lock:  # as when the collector runs in the middle of what the client does
        del stream
    client.stream("Hi").close()
    for _ in range(2):
        assert service.closings.acquire(timeout=TIMEOUT_S)


def test_requests_that_are_too_long_take_no_lane(client: Client) -> None:
    for _ in range(NUM_LANES + 1):
        with pytest.raises(InvalidRequest, match="can be sent through shared memory"):
            client.stream("a" * 5_000_000)
    assert "".join(client.stream("a")) == "Hello world"


async def test_a_ring_that_is_full_holds_up_no_event_loop(server: ShmServer, client: Client) -> None:
    goes_on = threading.Event()
    server.call(goes_on.wait)
    prompt = "a" * 1_000_000  # of which the ring has room for four
    asking = [asyncio.create_task(client.astream(prompt)) for _ in range(9)]
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert not any(task.done() for task in asking)
    goes_on.set()
    for stream in await asyncio.gather(*asking):
        assert "".join([text async for text in stream]) == "Hello world"


async def test_who_gives_up_before_its_request_was_taken_keeps_no_lane(server: ShmServer, client: Client) -> None:
    goes_on = threading.Event()
    server.call(goes_on.wait)
    for _ in range(2 * NUM_LANES):
        asking = asyncio.create_task(client.astream("a" * 1_000_000))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
    goes_on.set()
    for _ in range(2 * NUM_LANES):
        try:
            stream = await client.astream("a")
        except Overloaded:  # of those that were sent, some have not ended yet
            await asyncio.sleep(0.01)
        else:
            assert "".join([text async for text in stream]) == "Hello world"
    streams = [await client.astream("a") for _ in range(NUM_LANES)]
    assert len(streams) == NUM_LANES


def test_a_client_that_was_closed_says_so(client: Client) -> None:
    begun = client.stream("Hi")
    client.close()
    client.close()
    assert client.is_closed
    for use in (lambda: client.stream("Hi"), lambda: client.generate("Hi")):
        with pytest.raises(UnavailableError, match="closed"):
            use()
    begun.close()


def test_a_forked_process_leaves_its_parents_client_alone(server: ShmServer, client: Client) -> None:
    def use() -> None:
        with pytest.raises(UnavailableError, match="one that was forked needs its own"):
            client.stream("Hi")

    process = forked(use)
    process.join()
    assert process.exitcode == 0
    assert list(client.stream("Hi")) == ["Hello", " world"]


@pytest.mark.parametrize("address", ["", "name", "http://localhost", "shm://", "shm://a/b"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SetupError):
        tailrace.connect(address)


def test_nobody_is_there_until_a_server_is_started() -> None:
    with pytest.raises(UnavailableError, match="tailrace serve --shm nobody-is-called-so"):
        tailrace.connect("shm://nobody-is-called-so")


def test_a_client_loads_neither_models_nor_arrays_nor_event_loops() -> None:
    heavy = ["numpy", "tokenizers", "jinja2", "asyncio", "starlette", "tailrace.app", "tailrace.ops._native"]
    code = f"import sys, tailrace; tailrace.connect; sys.exit(str([x for x in {heavy} if x in sys.modules] or ''))"
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert result.stderr.strip() == ""
