"""What bounds a call and its connection: sizes, slow readers, compression, the end of the server, other event loops."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import pytest
import uvloop

from tailrace.frontends.grpc.config import GrpcConfig
from tailrace.frontends.grpc.v1 import inference_pb2 as pb
from tests.support.grpc_server import GENERATE, Front, front_end, rich_error
from tests.support.scripted_service import ScriptedService, finish, token

TEXT = pb.GenerateRequest(text="Once")
NO_GZIP = ("grpc.compression_enabled_algorithms_bitset", 1)
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16_384))


async def code_of(front: Front, request: pb.GenerateRequest) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in front.generate(request)]
    return caught.value.code()


async def test_a_request_that_is_too_large_is_refused_before_it_is_read(service: ScriptedService) -> None:
    async with front_end(service, GrpcConfig(max_request_bytes=10_000)) as front:
        assert await code_of(front, pb.GenerateRequest(text="x" * 10_001)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert [message async for message in front.generate(pb.GenerateRequest(text="x" * 9_000))]
    assert len(service.generations) == 1


async def test_a_request_that_is_small_only_as_long_as_it_is_packed_is_refused(service: ScriptedService) -> None:
    bomb = pb.GenerateRequest(text="x" * 1_000_000)
    async with front_end(service, GrpcConfig(max_request_bytes=10_000)) as front:
        method: grpc.aio.UnaryStreamMultiCallable[pb.GenerateRequest, bytes] = front.channel.unary_stream(
            GENERATE, pb.GenerateRequest.SerializeToString
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(bomb, compression=grpc.Compression.Gzip).read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert service.generations == []


async def test_metadata_that_is_too_large_ends_the_call_alone(service: ScriptedService) -> None:
    async with front_end(service, GrpcConfig(max_metadata_bytes=4096)) as front:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await front.generate(TEXT, metadata=[("x-large", "x" * 10_000)]).read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert [message async for message in front.generate(TEXT)]


async def test_calls_beyond_the_bound_are_refused(service: ScriptedService) -> None:
    service.script = (token("Hello"), asyncio.Event())
    async with front_end(service, GrpcConfig(max_calls=1)) as front:
        first = front.generate(TEXT)
        await first.read()
        assert await code_of(front, TEXT) is grpc.StatusCode.RESOURCE_EXHAUSTED
        first.cancel()


async def drained(call: "grpc.aio.UnaryStreamCall[pb.GenerateRequest, pb.GenerateResponse]") -> int:
    """Characters of what was left to read."""
    received = 0
    while isinstance(message := await call.read(), pb.GenerateResponse):
        received += len(message.text)
    return received


async def test_who_reads_slowly_stops_computing_and_gets_everything_in_the_end(service: ScriptedService) -> None:
    """A token a message, more of them than are kept on the way; another stream of the connection goes on meanwhile."""
    piece = "x" * 1000
    tokens = [token(piece) for _ in range(5_000)]
    service.most_at_once = 1
    service.script_of = lambda _: (*tokens, finish())
    async with front_end(service, GrpcConfig(max_buffered_bytes=4096), options=SMALL_WINDOW) as front:
        slow = front.generate(TEXT)
        await slow.read()
        while True:  # until the writer stands still
            before = service.streams[0].num_read
            await asyncio.sleep(0.2)
            if service.streams[0].num_read == before:
                break
        assert before < len(tokens)
        fast = [message async for message in front.generate(TEXT)]
        assert sum(len(message.text) for message in fast) == 5_000 * len(piece)
        received = len(piece) + await drained(slow)
    assert received == 5_000 * len(piece)


async def test_who_reads_nothing_for_too_long_is_given_up_alone(service: ScriptedService) -> None:
    tokens = [token("x" * 1000) for _ in range(5_000)]
    service.most_at_once = 1
    service.script = (*tokens, finish())
    async with front_end(service, GrpcConfig(max_buffered_bytes=4096, stall_s=0.3), options=SMALL_WINDOW) as front:
        stalled = front.generate(TEXT)
        await stalled.read()
        assert await asyncio.to_thread(service.closings.acquire, timeout=10)
        assert service.stream.num_read < len(tokens)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await drained(stalled)
        assert rich_error(caught.value).reason == "STALLED"
        service.script = (token("Hello"), finish())
        assert [message async for message in front.generate(TEXT)]


@asynccontextmanager
async def counted(port: int, options: Sequence[tuple[str, int]] = ()) -> AsyncIterator[tuple[Front, list[int]]]:
    """A client behind a proxy, and the sizes of what came back through it."""
    sizes: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sizes: list[int]) -> None:
        while data := await reader.read(1 << 16):
            sizes.append(len(data))
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, server_writer, []), pump(server_reader, writer, sizes))

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as proxy:
        near: int = proxy.sockets[0].getsockname()[1]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{near}", options=options) as channel:
            yield Front(near, channel, asyncio.Event(), asyncio.create_task(asyncio.sleep(0))), sizes


@pytest.mark.parametrize("can_unpack", [True, False])
async def test_large_messages_come_packed_to_who_can_unpack_them(
    front: Front, service: ScriptedService, *, can_unpack: bool
) -> None:
    text = "the same again and again " * 4_000
    service.script = (token(text), finish())
    async with counted(front.port, () if can_unpack else (NO_GZIP,)) as (behind, sizes):
        messages = [message async for message in behind.generate(TEXT)]
    assert messages[0].text == text
    assert (sum(sizes) < 5_000) is can_unpack


async def test_small_messages_come_as_they_are(front: Front, service: ScriptedService) -> None:
    """Packing would make them larger, and takes time."""
    service.script = (*(token("a" * 1000) for _ in range(20)), finish())
    service.most_at_once = 1
    async with counted(front.port) as (behind, sizes):
        assert [message async for message in behind.generate(TEXT)]
    assert sum(sizes) > 20_000


async def test_a_server_that_ends_lets_calls_end_and_takes_no_more(service: ScriptedService) -> None:
    gate = asyncio.Event()
    service.script = (token("Hel"), gate, token("lo"), finish())
    async with front_end(service, grace_s=10.0) as front:
        call = front.generate(TEXT)
        texts = [message.text for message in [await call.read()] if isinstance(message, pb.GenerateResponse)]
        front.stop.set()
        while await code_or_none(front) is None:  # it takes a moment until it says so
            pass
        gate.set()
        while isinstance(message := await call.read(), pb.GenerateResponse):
            texts.append(message.text)
        await front.serving
    assert "".join(texts) == "Hello"


async def code_or_none(front: Front) -> grpc.StatusCode | None:
    call = front.generate(pb.GenerateRequest(), timeout=5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    code = caught.value.code()
    return None if code is grpc.StatusCode.INVALID_ARGUMENT else code


async def test_calls_that_outlast_the_grace_are_ended(service: ScriptedService) -> None:
    service.script = (token("Hel"), asyncio.Event())
    async with front_end(service, grace_s=0.2) as front:
        call = front.generate(TEXT)
        await call.read()
        front.stop.set()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert service.stream.num_closed == 1


def test_it_runs_on_uvloop() -> None:
    service = ScriptedService()

    async def run() -> list[str]:
        async with front_end(service) as front:
            calls = [front.generate(TEXT) for _ in range(50)]
            return ["".join([message.text async for message in call]) for call in calls]

    assert uvloop.run(run()) == ["Hello world"] * 50


async def test_a_connection_that_speaks_nonsense_harms_nobody(front: Front) -> None:
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100):
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(nonsense)
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()
    assert [message async for message in front.generate(TEXT)]
