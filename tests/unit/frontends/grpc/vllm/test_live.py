from tailrace.frontends.grpc.vllm.live import LiveCalls
from tests.support.scripted_service import ScriptedStream


async def test_all_calls_of_a_name_are_aborted_and_no_others() -> None:
    live, streams = LiveCalls(), [ScriptedStream(()) for _ in range(3)]
    with live.entered("c", "a") as first, live.entered("c", "a") as second, live.entered("c", "b") as other:
        for call, stream in zip((first, second, other), streams, strict=True):
            await call.begins(stream)
        assert live.num_live == 3
        await live.abort("c", "a")
        await live.abort("d", "b")
        assert [stream.num_closed for stream in streams] == [1, 1, 0]
    assert live.num_live == 0


async def test_a_call_that_is_aborted_before_it_begins_ends_as_soon_as_it_does() -> None:
    live, stream = LiveCalls(), ScriptedStream(())
    with live.entered("c", "a") as call:
        await live.abort("c", "a")
        await call.begins(stream)
    assert stream.num_closed == 1


async def test_names_that_are_gone_are_kept_nowhere() -> None:
    live = LiveCalls()
    for number in range(100):
        with live.entered("c", str(number)):
            pass
    assert live._calls == {}
    await live.abort("c", "7")
