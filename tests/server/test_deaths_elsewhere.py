"""Engines die by SIGKILL, and nobody who reads over gRPC, in shared memory or by the public clients notices."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import grpc
import openai
import pytest
from smg_grpc_proto.generated import vllm_engine_pb2

import tailrace
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tests.server.process import ServerProcess, free_port, serving

NAME = f"tests-{os.getpid()}-deaths"
OPTIONS = ("--max-model-tokens", "1024", "--kv-memory", "128MiB", "--max-restarts", "1000", "--api-workers", "2")
TOKENS = 96
PROMPT = "Once upon a time"
QUESTION = "Tell me of rivers."

OnPiece = Callable[[int], object]
"""Told of each piece of an answer, which number it is."""

Answer = dict[Any, Any]


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(port: int) -> Iterator[ServerProcess]:
    with serving(*OPTIONS, "--grpc-port", str(port), "--shm", NAME) as process:
        yield process


class Pieces:
    """The pieces of an answer, put together by choice."""

    def __init__(self, on_piece: OnPiece) -> None:
        self.whole: Answer = {}
        self._on_piece = on_piece
        self._count = 0

    def add(self, index: int, text: str, logprobs: object = (), end: object = None) -> None:
        choice = self.whole.setdefault(index, ["", [], []])
        choice[0] += text
        choice[1] += logprobs
        choice[2] += [end] if end else []
        self._count += 1
        self._on_piece(self._count)


def over_shm(server: ServerProcess, port: int, on_piece: OnPiece) -> Answer:
    pieces = Pieces(on_piece)
    with tailrace.connect(f"shm://{NAME}") as client:
        stream = client.stream(
            PROMPT, max_tokens=TOKENS, temperature=0.9, seed=6, n=2, logprobs=2, stop=["zzzz"], ignore_eos=True
        )
        for delta in stream.deltas():
            logprobs = [(each.token_id, each.logprob) for each in delta.logprobs]
            pieces.add(delta.index, delta.text, logprobs, delta.finish_reason)
        usage = stream.usage
    return pieces.whole | {"usage": (usage.prompt_tokens, usage.completion_tokens)}


def channel(port: int) -> grpc.Channel:
    return grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])


def over_grpc(server: ServerProcess, port: int, on_piece: OnPiece) -> Answer:
    pieces = Pieces(on_piece)
    request = pb.GenerateRequest(
        text=PROMPT,
        max_tokens=TOKENS,
        sampling=pb.Sampling(temperature=0.9, seed=6, ignore_eos=True),
        n=2,
        logprobs=2,
        stop=["zzzz"],
    )
    with channel(port) as connection:
        generate = connection.unary_stream(
            "/tailrace.v1.Inference/Generate", pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString
        )
        usage = (0, 0)
        for message in generate(request, timeout=120):
            logprobs = [(each.token_id, each.logprob) for each in message.logprobs]
            pieces.add(message.index, message.text, logprobs, message.finish)
            if message.HasField("usage"):
                usage = (message.usage.prompt_tokens, message.usage.completion_tokens)
    return pieces.whole | {"usage": usage}


def over_vllms_protocol(server: ServerProcess, port: int, on_piece: OnPiece) -> Answer:
    pieces = Pieces(on_piece)
    sampling = vllm_engine_pb2.SamplingParams(temperature=0.9, seed=6, max_tokens=TOKENS, ignore_eos=True, n=2)
    request = vllm_engine_pb2.GenerateRequest(request_id="r", text=PROMPT, sampling_params=sampling, stream=True)
    with channel(port) as connection:
        generate = connection.unary_stream(
            "/vllm.grpc.engine.VllmEngine/Generate",
            vllm_engine_pb2.GenerateRequest.SerializeToString,
            vllm_engine_pb2.GenerateResponse.FromString,
        )
        for message in generate(request, timeout=120):
            end = message.complete.finish_reason
            index = message.complete.index if end else message.chunk.index
            pieces.add(index, "", message.chunk.token_ids, end)
    return pieces.whole


def over_openais_client(server: ServerProcess, port: int, on_piece: OnPiece) -> Answer:
    pieces = Pieces(on_piece)
    usage = None
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        for chunk in client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=TOKENS,
            temperature=0.8,
            seed=3,
            n=2,
            logprobs=True,
            top_logprobs=2,
            stop=["zzzz"],
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        ):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                given = choice.logprobs.content or () if choice.logprobs else ()
                logprobs = [(each.token, each.logprob, len(each.top_logprobs)) for each in given]
                pieces.add(choice.index, choice.delta.content or "", logprobs, choice.finish_reason)
    assert usage is not None
    return pieces.whole | {"usage": (usage.prompt_tokens, usage.completion_tokens)}


def over_anthropics_client(server: ServerProcess, port: int, on_piece: OnPiece) -> Answer:
    pieces = Pieces(on_piece)
    with (
        anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client,
        client.messages.stream(
            model="default",
            max_tokens=TOKENS,
            messages=[{"role": "user", "content": QUESTION}],
            stop_sequences=["zzzz"],
            extra_body={"temperature": 0.0},
        ) as stream,
    ):
        for text in stream.text_stream:
            pieces.add(0, text)
        last = stream.get_final_message()
    usage = (last.usage.input_tokens + (last.usage.cache_read_input_tokens or 0), last.usage.output_tokens)
    return pieces.whole | {"end": (last.stop_reason, last.stop_sequence), "usage": usage}


WAYS: dict[str, Callable[[ServerProcess, int, OnPiece], Answer]] = {
    "shm": over_shm,
    "grpc": over_grpc,
    "vLLM's protocol": over_vllms_protocol,
    "openai": over_openais_client,
    "anthropic": over_anthropics_client,
}


@pytest.fixture(scope="module")
def undisturbed(server: ServerProcess, port: int) -> dict[str, Answer]:
    return {name: way(server, port, lambda count: None) for name, way in WAYS.items()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("after", [1, 17])
def test_an_answer_goes_on_behind_the_token_where_its_engine_died(
    server: ServerProcess, port: int, undisturbed: dict[str, Answer], way: str, after: int
) -> None:
    pids = []

    def kill(count: int) -> None:
        if count == after:
            pids.append(server.kill("engine"))

    assert WAYS[way](server, port, kill) == undisturbed[way]
    assert len(pids) == 1
    assert server.pid_of("engine") not in pids


def test_all_go_on_together_when_the_engine_dies_again(
    server: ServerProcess, port: int, undisturbed: dict[str, Answer]
) -> None:
    """Each of them kills the engine once, while the others read."""
    lock = threading.Lock()

    def kill(count: int) -> None:
        if count == 9:
            with lock:
                server.kill("engine")
                server.wait_until("/ready", 200)

    with ThreadPoolExecutor(len(WAYS)) as readers:
        running = {name: readers.submit(way, server, port, kill) for name, way in WAYS.items()}
        answers = {name: answer.result() for name, answer in running.items()}
    assert answers == undisturbed
