"""What takes bytes from outside, each with inputs to begin from. A target raises what should never be raised."""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from google.protobuf.message import DecodeError

from tailrace.bench.exchange import WireError
from tailrace.bench.sse import EventParser
from tailrace.classes import STANDARD
from tailrace.engine import wire
from tailrace.errors import ModelError, SetupError, TailraceError
from tailrace.frontends.claim import with_headers
from tailrace.frontends.class_file import read_classes
from tailrace.frontends.grpc.requests import claim_of, generation_of
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.key_file import read_clients
from tailrace.frontends.shm.asks import decode_ask
from tailrace.frontends.standing import ANYBODY, Claim, settle
from tailrace.frontends.warm_file import read_prompts
from tailrace.models.config import LatentConfig, MixtureConfig
from tailrace.ops.program import Routing
from tailrace.service.answer_form import AnswerForm
from tailrace.service.api import Generation
from tailrace.service.bounds import TextBounds, check_generation
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.build import machine_factory
from tailrace.service.parsing.tools import TOOL_STYLES
from tailrace.service.tokenizer import Tokenizer
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import Explain, FinishReason
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.safetensors import read_safetensors
from tests.support import call_texts
from tests.support.asgi import talk
from tests.support.machine_reading import read
from tests.support.scripted_service import MODEL, ScriptedService, Step, finish, token
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import GgmlType, write_gguf
from tests.unit.weights.tokenizer_files import GGUF_VOCABULARY, write_tokenizer

__all__ = ["TARGETS", "Target"]

# A model whose files are smaller than what a damaged input is cut to.
_TINY_V3 = dataclasses.replace(
    DEEPSEEK["V3"],
    hidden_size=32,
    intermediate_size=32,
    num_layers=2,
    num_heads=2,
    head_dim=40,
    latent=LatentConfig(latent_dim=32, plain_dim=32, rope_dim=8, value_dim=32, query_latent_dim=32),
    mixture=MixtureConfig(Routing(4, 2, "sigmoid", 2, 1, "top two"), expert_size=32, first_layer=1, has_bias=True),
)
# What its matrices are, and in which types the gguf package can write them.
_EXPERTS, _LATENT = ("experts.gate", "experts.up", "experts.down"), ("q_a", "q_b", "kv_a", "k_b", "v_b", "o")
_MATRICES = (*_EXPERTS, *_LATENT, "gate", "up", "down", "embed")
_BLOCK_TYPES = [GgmlType[name] for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "BF16", "F16")]

ADMIN = "admin-0123456789abc"


@dataclass(frozen=True, slots=True)
class Target:
    """`prepare` makes, in the process that runs it, the inputs to begin from and what takes one."""

    name: str
    prepare: Callable[[Path], tuple[Sequence[bytes], Callable[[bytes], None]]]
    cost: float = 1.0  # beside others: how much fewer inputs it gets


Prepared = tuple[Sequence[bytes], Callable[[bytes], None]]

_MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
_SAMPLING = {"max_tokens": 5, "temperature": 0.7, "top_p": 0.9, "stop": ["x", "y"], "stream": True}
_BODIES: dict[str, Sequence[object]] = {
    "/v1/chat/completions": [
        {"messages": _MESSAGES, "n": 2, "logprobs": True, "top_logprobs": 3, "tools": [], **_SAMPLING},
        {"messages": _MESSAGES, "stream_options": {"include_usage": True}, "logit_bias": {"1": -5}, "stream": True},
    ],
    "/v1/completions": [
        {"prompt": ["a", "b"], "n": 2, "echo": True, "seed": -1, "user_id": "u", "cache_salt": "s"},
        {"prompt": [1, 2, 3], "suffix": "x", "priority": -1, "service_tier": "flex", **_SAMPLING},
    ],
    "/v1/responses": [{"input": [{"role": "user", "content": "Hi"}], "instructions": "x", "max_output_tokens": 16}],
    "/v1/messages": [{"model": MODEL.name, "messages": _MESSAGES[1:], "system": "x", "max_tokens": 8, "stream": True}],
    "/v1/messages/count_tokens": [{"model": MODEL.name, "messages": _MESSAGES[1:]}],
    "/tokenize": [{"prompt": "Hi", "return_token_strs": True}, {"messages": _MESSAGES}],
    "/detokenize": [{"tokens": [1, 2, 3]}],
    "/cache/explain": [{"messages": _MESSAGES}, {"token_ids": [1, 2]}],
    "/cache/invalidate": [{"prefix": {"prompt": "x"}}, {"tenant": {"cache_salt": "a"}}, {"block": "00" * 16}],
}


def _script(generation: Generation) -> list[Step]:
    """What each choice says, if the service took that many."""
    check_generation(generation, TextBounds(), MODEL.vocab_size)
    return [step for index in range(generation.n) for step in (token("Hi", index), finish(index))]


def _http(path: str) -> Callable[[Path], Prepared]:
    """A body of an endpoint: answered, refused with a reason, never our fault."""

    def prepare(folder: Path) -> Prepared:
        service = ScriptedService(script_of=_script)
        config = HttpConfig(admin_key=ADMIN, max_merged_choices=8)
        app = create_app(service, Metrics(model_name=MODEL.name, version="0"), config)
        headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
        runner = asyncio.Runner()

        async def ask(body: bytes) -> None:
            answer = await talk(app, path, body, headers=headers).end()
            service.generations.clear()
            service.streams.clear()
            assert answer.is_complete
            assert answer.status == 200 or answer.status in range(400, 500), answer.body
            assert answer.status == 200 or answer.json()["error"]["message"]
            assert b"Traceback" not in answer.body

        return [json.dumps(body).encode() for body in _BODIES[path]], lambda body: runner.run(ask(body))

    return prepare


_HEADERS = (b"x-slo-ttft-ms", b"x-slo-tpot-ms", b"x-llm-d-inference-objective", b"x-request-timeout-ms")


def _headers(folder: Path) -> Prepared:
    def take(data: bytes) -> None:
        headers = dict(zip((*_HEADERS, b"x-llm-d-inference-fairness-id"), data.split(b"\n"), strict=False))
        with contextlib.suppress(TailraceError):
            settle(with_headers(Claim(), headers, STANDARD), ANYBODY, STANDARD)

    return [b"250\n0.5\ngold\n1000\nteam", b"\n\nsilver\n86400000\n"], take


def _events(folder: Path) -> Prepared:
    """Wherever a stream is cut, its events are the same."""

    def take(data: bytes) -> None:
        whole, cut = EventParser(), EventParser()
        with contextlib.suppress(WireError):
            events = whole.feed(data)
            pieces = [cut.feed(data[i : i + 7]) for i in range(0, len(data), 7)]
            assert [event for piece in pieces for event in piece] == events

    return [b'data: {"a": 1}\n\ndata: [DONE]\n\n', b": keep-alive\n\nevent: x\r\ndata: a\r\ndata: b\r\n\r\n"], take


def _calls(style: str) -> Callable[[Path], Prepared]:
    """An answer with tool calls in it: the bytes as they are, or made from them as a seed."""

    def take(data: bytes) -> None:
        chance = random.Random(data)
        texts = data.decode(errors="replace"), call_texts.damaged(chance, style), call_texts.fragments(chance, style)
        answer = chance.choice(texts)
        call_texts.check_any_parse(style, answer, call_texts.cut(chance, answer))

    seeds = [call_texts.well_formed(random.Random(seed), style)[0].encode() for seed in range(8)]
    return lambda folder: (seeds, take)


def _answers(style: str) -> Callable[[Path], Prepared]:
    """An answer with reasoning, calls and stop strings, however it is cut."""

    def take(data: bytes) -> None:
        chance = random.Random(data)
        begins = chance.choice(("", "<think>", "\n<think>\nβ", "<think>β</think>\n\n", "</think>", "<think>β</thi"))
        answer = begins + chance.choice((data.decode(errors="replace"), call_texts.damaged(chance, style)))
        stops = [answer[place : place + 2] for place in chance.sample(range(len(answer)), min(len(answer), 2))]
        opened = AnswerForm(style, chance.choice(("", "<think>\n", "<", "<think>β</th")), has_tools=True)
        make = machine_factory(ReasoningTags(), style, opened, chance.choice(((), stops)), include_stop=False)
        assert make is not None
        assert read(make(), call_texts.cut(chance, answer)) == read(make(), [answer])

    seeds = [call_texts.well_formed(random.Random(seed), style)[0].encode() for seed in range(8)]
    return lambda folder: (seeds, take)


def _channel(folder: Path) -> Prepared:
    """Messages between the processes of a server."""

    def take(data: bytes) -> None:
        with contextlib.suppress(wire.MessageDamaged):
            wire.decode(data[0] if data else 0, data[1:])

    messages: list[wire.Message] = [
        wire.Abort(7, FinishReason.ABORT),
        wire.Pause(7),
        Explain(1, [1, 2], "salt"),
        wire.Detail(3, error="no"),
    ]
    encoded = [wire.encode(message) for message in messages]
    return [bytes([kind]) + b"".join(bytes(part) for part in parts) for kind, parts in encoded], take


def _asks(folder: Path) -> Prepared:
    """Requests in shared memory."""

    def take(data: bytes) -> None:
        with contextlib.suppress(TailraceError):
            decode_ask(memoryview(data), "r", STANDARD)

    asks = [{"prompt": "Hi", "n": 2, "stop": ["x"], "seed": 1, "logit_bias": {1: 2.0}}, {"messages": _MESSAGES}]
    return [msgspec.msgpack.encode(ask) for ask in asks], take


def _protos(folder: Path) -> Prepared:
    """Requests of gRPC clients."""

    def take(data: bytes) -> None:
        with contextlib.suppress(TailraceError, DecodeError):
            request = pb.GenerateRequest.FromString(data)
            generation_of(request, "r", settle(claim_of(request), ANYBODY, STANDARD))

    text = pb.GenerateRequest(text="Hi", n=2, stop=["x"], tenant="t", sampling=pb.Sampling(seed=7, top_k=5))
    tokens = pb.GenerateRequest(token_ids=pb.TokenIds(ids=[1, 2, 3]), cache_salt=b"s", service_class="gold")
    return [text.SerializeToString(), tokens.SerializeToString()], take


def _gguf(folder: Path) -> Prepared:
    path = folder / "model.gguf"
    write_gguf(path)

    def take(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.suppress(ModelError):
            checkpoint = open_gguf(path)
            for name in checkpoint.tensors:
                assert checkpoint.tensors[name].shape is not None

    return [path.read_bytes()], take


def _deepseek_gguf(folder: Path) -> Prepared:
    """Latents, experts, and block types of every kind, in files of both generations."""
    path = folder / "model.gguf"
    kinds = dict(zip(_MATRICES, itertools.cycle(_BLOCK_TYPES)))
    seeds = []
    for is_old in (False, True):
        write_deepseek_gguf(path, _TINY_V3, is_old=is_old, kinds=kinds, metadata=GGUF_VOCABULARY)
        _look_at_all(open_gguf(path))
        seeds.append(path.read_bytes())

    def take(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.suppress(ModelError):
            _look_at_all(open_gguf(path))

    return seeds, take


def _look_at_all(checkpoint: Checkpoint) -> None:
    """Every tensor and the tokenizer; what is there is finite."""
    for name in checkpoint.tensors:
        with contextlib.suppress(ModelError), np.errstate(over="ignore"):
            assert np.isfinite(checkpoint.tensors[name].dequantize()).all(), name
    Tokenizer.from_source(checkpoint.tokenizer)


def _safetensors(folder: Path) -> Prepared:
    path = folder / "model.safetensors"

    def take(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.suppress(ModelError):
            for tensor in read_safetensors(path).values():
                tensor.check()
                if tensor.format is not None:
                    tensor.packed()

    head = {
        "a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [32, 40]},
        "__metadata__": {"format": "pt"},
    }
    encoded = json.dumps(head).encode()
    return [struct.pack("<Q", len(encoded)) + encoded + np.zeros(40, np.uint8).tobytes()], take


def _directory(file: str) -> Callable[[Path], Prepared]:
    """A file of a directory: settings, the tokenizer, which shard has what, or a shard."""

    def prepare(folder: Path) -> Prepared:
        directory = folder / "model"
        write_deepseek(directory, _TINY_V3, dtype="float16", num_files=4)
        write_tokenizer(directory / "tokenizer.json")
        _look_at_all(open_directory(directory))
        path = directory / file

        def take(data: bytes) -> None:
            path.write_bytes(data)
            with contextlib.suppress(ModelError):
                _look_at_all(open_directory(directory))

        return [path.read_bytes()], take

    return prepare


def _lines(read: Callable[[Path], object], *seeds: object) -> Callable[[Path], Prepared]:
    """Files of operators."""

    def prepare(folder: Path) -> Prepared:
        path = folder / "lines.jsonl"

        def take(data: bytes) -> None:
            path.write_bytes(data)
            with contextlib.suppress(SetupError):
                read(path)

        return ["\n".join(json.dumps(seed) for seed in seeds).encode()], take

    return prepare


_KEY = {"name": "shop", "key": "sk-0123456789abcdef", "class": "gold", "requests_per_minute": 5}
_CLASS = {"name": "a", "priority": 4, "ttft_ms": 1, "itl_ms": 5, "queue_ttl_s": 1, "default": True}

TARGETS: tuple[Target, ...] = (
    *(Target(f"http {path}", _http(path), cost=4) for path in _BODIES),
    Target("headers", _headers),
    Target("events", _events),
    *(Target(f"calls {style}", _calls(style), cost=4) for style in TOOL_STYLES),
    *(Target(f"answers {style}", _answers(style), cost=8) for style in TOOL_STYLES),
    Target("channel", _channel),
    Target("asks", _asks),
    Target("protos", _protos),
    Target("gguf", _gguf, cost=10),
    Target("gguf deepseek", _deepseek_gguf, cost=40),
    Target("safetensors", _safetensors, cost=2),
    Target("config.json", _directory("config.json"), cost=20),
    Target("tokenizer.json", _directory("tokenizer.json"), cost=20),
    Target("index.json", _directory("model.safetensors.index.json"), cost=20),
    Target("shard", _directory("model-00002-of-00004.safetensors"), cost=20),
    Target("keys", _lines(lambda path: read_clients(path, STANDARD), _KEY, {**_KEY, "name": "b"})),
    Target("classes", _lines(read_classes, _CLASS, {**_CLASS, "name": "b", "default": False})),
    Target("warm", _lines(read_prompts, {"prompt": "x"}, {"token_ids": [1, 2]}, {"messages": _MESSAGES})),
)
