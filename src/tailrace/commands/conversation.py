"""The course of a chat: what was said, what the user may command, and what Ctrl-C stops."""

from dataclasses import replace

from tailrace.bench.pieces import Piece
from tailrace.bench.server import Message
from tailrace.commands.answer import Answer, Answerer, Sampling
from tailrace.commands.screen import Screen
from tailrace.commands.spoken import Call, Spoken
from tailrace.errors import SetupError, TailraceError

__all__ = ["HELP", "Conversation"]

HELP = "/reset forgets what was said, /system TEXT sets how to behave, /exit ends; Ctrl-C stops an answer"


class Conversation:
    """Reads messages and answers them until the input ends. History goes back to the model with each message.

    Where an answer calls tools, the user says what they gave, a line each, and the answer goes on.
    """

    def __init__(self, answerer: Answerer, sampling: Sampling, system: str | None, screen: Screen) -> None:
        self._answerer = answerer
        self._sampling = sampling
        self._system = system
        self._screen = screen
        self._said: list[Message] = []

    def run(self) -> None:
        """Talk until /exit or the end of input. Raises TailraceError in a pipe; a person is told and may go on."""
        self._screen.note(HELP)
        while (line := self._read()) is not None and line != "/exit":
            try:
                self._take(line)
            except TailraceError as error:
                if not self._screen.is_interactive:
                    raise
                self._screen.note(str(error))

    def _read(self) -> str | None:
        while True:
            try:
                line = self._screen.read()
            except KeyboardInterrupt:
                if not self._screen.is_interactive:
                    raise
                self._screen.note("\n/exit or Ctrl-D ends")
                continue
            return None if line is None else line.strip()

    def _take(self, line: str) -> None:
        command, _, argument = line.partition(" ")
        match command:
            case "":
                pass
            case "/reset":
                self._said.clear()
            case "/system":
                self._system = argument.strip() or None
            case _ if command.startswith("/"):
                raise SetupError(f"there is no command {command}: {HELP}")
            case _:
                self._answer(line)

    def _answer(self, line: str) -> None:
        start = len(self._said)
        self._said.append({"role": "user", "content": line})
        try:
            calls = self._ask(self._sampling)
            while calls and (results := self._results(calls)):
                self._said += results
                calls = self._ask(replace(self._sampling, tool_choice=None))  # a forced call would be forced for ever
            if calls:
                del self._said[-1]["tool_calls"]  # nobody says what they gave
        except TailraceError:
            del self._said[start:]  # what could not be answered is not part of the talk
            raise

    def _ask(self, sampling: Sampling) -> list[Call]:
        """Ask for an answer to all that was said, show it, and return what it calls; nothing if it was stopped."""
        system = [{"role": "system", "content": self._system}] if self._system else []
        spoken = Spoken()

        def take(piece: Piece) -> None:
            spoken.add(piece)
            self._screen.show(piece)

        answer: Answer | None = None
        try:
            answer = self._answerer.answer([*system, *self._said], sampling, take)
        except KeyboardInterrupt:
            if not self._screen.is_interactive:
                raise
        calls = spoken.calls if answer is not None else []
        self._screen.end(calls)
        self._screen.note("stopped" if answer is None else answer.summary())
        self._said.append(spoken.message() if answer is not None else {"role": "assistant", "content": spoken.text})
        return calls

    def _results(self, calls: list[Call]) -> list[Message]:
        """What the calls gave, as messages; none where the input has ended. Ctrl-C, or nothing, is no result."""
        results: list[Message] = []
        for call in calls:
            if (result := self._result(call)) is None:
                return []
            results.append({"role": "tool", "tool_call_id": call.call_id, "content": result or "no result"})
        return results

    def _result(self, call: Call) -> str | None:
        try:
            return self._screen.read(f"{call.name} gives> ")
        except KeyboardInterrupt:
            if not self._screen.is_interactive:
                raise
            return ""
