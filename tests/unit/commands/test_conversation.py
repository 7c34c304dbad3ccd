from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tailrace.bench.pieces import CallPiece, Piece, PieceSink
from tailrace.bench.server import Message, Prompt
from tailrace.commands.answer import Answer, Sampling
from tailrace.commands.conversation import Conversation
from tailrace.commands.screen import Screen
from tailrace.commands.spoken import Call
from tailrace.errors import EngineError, TailraceError

SAMPLING = Sampling(max_tokens=9, temperature=0.5)


class Echo:
    """Answers a message with itself in capitals; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Prompt] = []

    def answer(self, prompt: Prompt, sampling: Sampling, on_piece: PieceSink) -> Answer:
        assert sampling == SAMPLING
        assert not isinstance(prompt, str)
        self.asked.append([dict(message) for message in prompt])
        text = str(prompt[-1]["content"]).upper()
        on_piece(Piece(text[:2]))
        match text:
            case "STOP ME":
                raise KeyboardInterrupt
            case "FAIL":
                raise EngineError("out of blocks")
        on_piece(Piece(text[2:]))
        return Answer(text, "stop", 7, 3, 4, ttft_s=0.05, decode_s=0.5)


class Typist:
    """Types lines; an exception among them stands for the key that causes it."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines: Iterator[str | BaseException] = iter(lines)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines, None)
        if line is None:
            raise EOFError
        if isinstance(line, BaseException):
            raise line
        return line


def talk(
    monkeypatch: pytest.MonkeyPatch,
    *lines: str | BaseException,
    system: str | None = None,
    is_interactive: bool = True,
) -> Echo:
    monkeypatch.setattr("builtins.input", Typist(*lines))
    echo = Echo()
    Conversation(echo, SAMPLING, system, Screen(is_interactive=is_interactive)).run()
    return echo


def test_each_message_goes_out_with_what_was_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = talk(monkeypatch, "one", "", "two")

    assert echo.asked == [
        [{"role": "user", "content": "one"}],
        [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "ONE"},
            {"role": "user", "content": "two"},
        ],
    ]


def test_a_person_sees_answers_and_how_fast_they_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk(monkeypatch, "one", "two")

    shown = capsys.readouterr()
    assert shown.out == "ONE\nTWO\n"
    assert shown.err.count("TTFT 50 ms, 4.0 tok/s, 7 tokens in (4 cached), 3 out\n") == 2


def test_a_pipe_gets_the_bare_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    talk(monkeypatch, "one", "two", is_interactive=False)

    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("ONE\nTWO\n", "")


def test_reset_forgets_what_was_said_but_not_the_system_message(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = talk(monkeypatch, "one", "/reset", "two", system="Be brief.")

    assert echo.asked[1] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "two"}]


def test_system_sets_or_takes_away_the_system_message(monkeypatch: pytest.MonkeyPatch) -> None:
    echo = talk(monkeypatch, "/system Be kind. ", "one", "/reset", "/system", "two")

    assert echo.asked[0][0] == {"role": "system", "content": "Be kind."}
    assert echo.asked[1] == [{"role": "user", "content": "two"}]


def test_exit_ends_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(talk(monkeypatch, "one", "/exit", "two").asked) == 1


def test_a_command_nobody_knows_is_not_sent_to_the_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk(monkeypatch, "/rest").asked == []
    assert "no command /rest" in capsys.readouterr().err


def test_ctrl_c_stops_an_answer_and_what_was_said_of_it_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    echo = talk(monkeypatch, "stop me", "go on")

    assert echo.asked[1][1] == {"role": "assistant", "content": "ST"}
    shown = capsys.readouterr()
    assert shown.out == "ST\nGO ON\n"
    assert "stopped" in shown.err


def test_ctrl_c_at_the_prompt_says_how_to_leave(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(talk(monkeypatch, KeyboardInterrupt(), "one").asked) == 1
    assert "/exit or Ctrl-D" in capsys.readouterr().err


def test_ctrl_c_ends_the_program_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("stop me", KeyboardInterrupt()):
        with pytest.raises(KeyboardInterrupt):
            talk(monkeypatch, line, "go on", is_interactive=False)


def test_a_failed_answer_is_told_and_its_message_forgotten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    echo = talk(monkeypatch, "fail", "one")

    assert "out of blocks" in capsys.readouterr().err
    assert echo.asked[1] == [{"role": "user", "content": "one"}]


def test_a_failed_answer_ends_the_program_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TailraceError, match="out of blocks"):
        talk(monkeypatch, "fail", "one", is_interactive=False)


CALLS = [Call("call_1", "get_weather", '{"city": "Rome"}'), Call("call_2", "get_time", "{}")]


class Thinker(Echo):
    """Thinks, and calls two tools before it answers with what they gave. `messages` is what it was asked last."""

    messages: list[Message]

    def __init__(self) -> None:
        super().__init__()
        self.choices: list[object] = []

    def answer(self, prompt: Prompt, sampling: Sampling, on_piece: PieceSink) -> Answer:
        self.choices.append(sampling.tool_choice)
        assert not isinstance(prompt, str)
        self.messages = [dict(message) for message in prompt]
        self.asked.append(self.messages)
        on_piece(Piece(reasoning="hm, "))
        if prompt[-1]["role"] == "tool":
            text = " and ".join([str(message["content"]) for message in prompt if message["role"] == "tool"])
            if "broken" in text:
                raise EngineError("out of blocks")
            on_piece(Piece(text))
            return Answer(text, "stop", 7, 3, 4, ttft_s=0.05, decode_s=0.5)
        for index, call in enumerate(CALLS):
            on_piece(Piece(calls=(CallPiece(index, call.call_id, call.name),)))
            on_piece(Piece(calls=(CallPiece(index, arguments=call.arguments),)))
        return Answer("", "tool_calls", 7, 3, 4, ttft_s=0.05, decode_s=0.5, calls=CALLS)


def think(monkeypatch: pytest.MonkeyPatch, *lines: str | BaseException, is_interactive: bool = True) -> Thinker:
    monkeypatch.setattr("builtins.input", Typist(*lines))
    thinker = Thinker()
    Conversation(thinker, replace(SAMPLING, tool_choice="required"), None, Screen(is_interactive=is_interactive)).run()
    return thinker


def _wire(call: Call) -> dict[str, Any]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def test_calls_go_back_with_what_the_user_says_they_gave(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    thinker = think(monkeypatch, "How is it?", "sunny", "noon", "thanks")

    called = {"role": "assistant", "content": "", "reasoning_content": "hm, ", "tool_calls": [*map(_wire, CALLS)]}
    assert thinker.asked[1] == [
        {"role": "user", "content": "How is it?"},
        called,
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
    ]
    answered = {"role": "assistant", "content": "sunny and noon", "reasoning_content": "hm, "}
    assert thinker.asked[2][-2:] == [answered, {"role": "user", "content": "thanks"}]
    assert thinker.choices == ["required", None, "required"], "a forced call is forced once"
    shown = capsys.readouterr().out
    assert "\x1b[2mhm, \x1b[0m" in shown, "thoughts are dim, and what follows is not"
    assert "get_weather" in shown
    assert '"city": "Rome"' in shown
    assert "─" in shown, "in a box"


def test_a_pipe_gets_calls_as_json_and_no_thoughts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    think(monkeypatch, "How is it?", "sunny", "noon", is_interactive=False)

    assert capsys.readouterr().out.splitlines() == [
        "",
        '{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}',
        '{"name": "get_time", "arguments": "{}"}',
        "sunny and noon",
    ]


def test_a_call_that_nobody_carries_out_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    thinker = think(monkeypatch, "How is it?", KeyboardInterrupt(), "")

    assert [message["content"] for message in thinker.messages[-2:]] == ["no result", "no result"]


def test_a_failed_answer_to_results_takes_the_whole_exchange_back(monkeypatch: pytest.MonkeyPatch) -> None:
    thinker = think(monkeypatch, "How is it?", "broken", "noon", "again")

    assert thinker.asked[2] == [{"role": "user", "content": "again"}]


def test_calls_go_no_further_than_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    thinker = think(monkeypatch, "How is it?", "sunny", is_interactive=False)

    assert len(thinker.asked) == 1, "the second call has no result, and will have none"
