"""The gRPC front end of a real server with two API processes: what comes over it is what comes over HTTP."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from openai.types.chat import ChatCompletionUserMessageParam
from smg_grpc_proto.generated import vllm_engine_pb2

from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tests.server.over_http import answer_over_http
from tests.server.process import ServerProcess, free_port, serving

OPTIONS = ("--max-model-tokens", "1024", "--kv-memory", "128MiB", "--api-workers", "2")
GENERATE = "/tailrace.v1.Inference/Generate"
TOKENS = 48
QUESTION = pb.Chat(messages=[pb.Message(role="user", content="Tell me of rivers.")])
QUESTION_OVER_HTTP: ChatCompletionUserMessageParam = {"role": "user", "content": "Tell me of rivers."}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(port: int) -> Iterator[ServerProcess]:
    with serving(*OPTIONS, "--grpc-port", str(port)) as process:
        yield process


def channel(port: int) -> grpc.Channel:
    """A connection of its own, which the kernel deals to one of the API processes."""
    return grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])


def answer(port: int, request: pb.GenerateRequest) -> tuple[str, pb.GenerateResponse]:
    with channel(port) as connection:
        method = connection.unary_stream(GENERATE, pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString)
        messages = list(method(request, timeout=60))
    return "".join(each.text for each in messages), messages[-1]


def request(seed: int) -> pb.GenerateRequest:
    return pb.GenerateRequest(
        chat=QUESTION, max_tokens=TOKENS, sampling=pb.Sampling(temperature=0.7, seed=seed, ignore_eos=True)
    )


def test_the_answer_is_that_of_http_whichever_process_gives_it(server: ServerProcess, port: int) -> None:
    expected = [answer_over_http(server.url, [QUESTION_OVER_HTTP], TOKENS, seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        over_grpc = list(pool.map(lambda seed: answer(port, request(seed)), range(8)))
    assert [text for text, _ in over_grpc] == expected
    assert {last.usage.completion_tokens for _, last in over_grpc} == {TOKENS}


def test_tools_and_calls_are_part_of_the_prompt(server: ServerProcess, port: int) -> None:
    look, user = pb.Tool(name="look", parameters=b'{"type": "object", "properties": {}}'), QUESTION.messages[0]
    called = pb.Message(role="assistant", tool_calls=[pb.ToolCall(id="c1", name="look", arguments="{}")])
    result = pb.Message(role="tool", content="A weir.", tool_call_id="c1")
    chats = [QUESTION, pb.Chat(messages=[user], tools=[look]), pb.Chat(messages=[user, called, result], tools=[look])]
    lasts = [answer(port, pb.GenerateRequest(chat=chat, max_tokens=2))[1] for chat in chats]
    counts = [last.usage.prompt_tokens for last in lasts]
    assert counts == sorted(set(counts))


def test_tokens_over_vllms_protocol_are_the_text_over_ours(server: ServerProcess, port: int) -> None:
    text, _ = answer(port, request(1))
    with channel(port) as connection:
        tokenize = connection.unary_unary(
            "/tailrace.v1.Inference/Tokenize", pb.TokenizeRequest.SerializeToString, pb.TokenizeResponse.FromString
        )
        prompt_ids = tokenize(pb.TokenizeRequest(chat=QUESTION)).ids
        generate = connection.unary_stream(
            "/vllm.grpc.engine.VllmEngine/Generate",
            vllm_engine_pb2.GenerateRequest.SerializeToString,
            vllm_engine_pb2.GenerateResponse.FromString,
        )
        sampling = vllm_engine_pb2.SamplingParams(
            temperature=0.7, seed=1, max_tokens=TOKENS, ignore_eos=True, skip_special_tokens=True
        )
        messages = generate(
            vllm_engine_pb2.GenerateRequest(
                request_id="r",
                tokenized=vllm_engine_pb2.TokenizedInput(input_ids=prompt_ids),
                sampling_params=sampling,
                stream=True,
            ),
            timeout=60,
        )
        ids = [token_id for message in messages for token_id in message.chunk.token_ids]
        detokenize = connection.unary_unary(
            "/tailrace.v1.Inference/Detokenize",
            pb.DetokenizeRequest.SerializeToString,
            pb.DetokenizeResponse.FromString,
        )
        assert len(ids) == TOKENS
        assert detokenize(pb.DetokenizeRequest(ids=ids)).text == text


def test_who_cancels_leaves_nothing_running(server: ServerProcess, port: int) -> None:
    with channel(port) as connection:
        method = connection.unary_stream(GENERATE, pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString)
        long = pb.GenerateRequest(text="Once", max_tokens=900, sampling=pb.Sampling(ignore_eos=True))
        call = method(long)
        next(call)
        call.cancel()
    server.wait_for_less("tailrace_requests_running", 1)


def test_who_is_served_at_the_end_is_served_to_the_end(port: int) -> None:
    own = free_port()
    with serving(*OPTIONS, "--grpc-port", str(own)) as process, channel(own) as connection:
        method = connection.unary_stream(GENERATE, pb.GenerateRequest.SerializeToString, pb.GenerateResponse.FromString)
        call = method(pb.GenerateRequest(text="Once", max_tokens=200, sampling=pb.Sampling(ignore_eos=True)))
        messages = [next(call)]
        with ThreadPoolExecutor(1) as pool:
            stopping = pool.submit(process.stop)
            messages.extend(call)
            assert stopping.result() == 0
    assert messages[-1].usage.completion_tokens == 200


def test_calls_are_counted_over_all_processes(server: ServerProcess, port: int) -> None:
    answer(port, request(1))
    names = [
        "tailrace_grpc_calls_total",
        "tailrace_first_text_seconds_count",
        "tailrace_inter_token_latency_seconds_count",
    ]
    before = [server.metric(name) for name in names]
    for seed in range(4):
        answer(port, request(seed))
    calls, answers, gaps = (server.metric(name) - was for name, was in zip(names, before, strict=True))
    assert (calls, answers) == (4, 4)
    assert 4 <= gaps <= 4 * (TOKENS - 1), "several tokens may come as one piece"
    assert server.metric("tailrace_grpc_calls_in_flight") == 0
