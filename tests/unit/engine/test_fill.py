from tailrace.engine.channel import make_channels
from tailrace.engine.fill import ChannelFill
from tailrace.ring import MessageRing, TokenRing


def test_rings_are_as_full_as_what_was_written_and_not_read() -> None:
    (channel,) = make_channels(1, max_model_tokens=64)
    fill = ChannelFill(channel)
    assert fill.shares() == {"commands": 0.0, "tokens": 0.0, "details": 0.0}

    commands, tokens = MessageRing(channel.commands), TokenRing(channel.tokens)
    assert commands.send(1, 1, bytes(commands.capacity_bytes // 4 - 16))
    for number in range(tokens.num_slots // 2):
        assert tokens.push_detailed(number, 7, None, 1, 1, None)
    assert fill.shares() == {"commands": 0.25, "tokens": 0.5, "details": 0.0}

    commands.receive()
    tokens.pop(tokens.num_slots)
    assert fill.shares() == {"commands": 0.0, "tokens": 0.0, "details": 0.0}


def test_of_rings_that_make_no_sense_nothing_is_said() -> None:
    (channel,) = make_channels(1, max_model_tokens=64)
    channel.tokens[:8] = b"\xff" * 8
    assert ChannelFill(channel).shares() == {}
