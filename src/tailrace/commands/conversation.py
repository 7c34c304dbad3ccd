"""The course of a chat: what was said, what the user may command, and what Ctrl-C stops."""

from tailrace.bench.server import Message
from tailrace.commands.answer import Answer, Answerer, Sampling
from tailrace.commands.screen import Screen
from tailrace.errors import SetupError, TailraceError

__all__ = ["HELP", "Conversation"]

HELP = "/reset forgets what was said, /system TEXT sets how to behave, /exit ends; Ctrl-C stops an answer"


class Conversation:
    """Reads messages and answers them until the input ends. History goes back to the model with each message."""

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
        system = [{"role": "system", "content": self._system}] if self._system else []
        asked = {"role": "user", "content": line}
        text = ""

        def show(piece: str) -> None:
            nonlocal text
            text += piece
            self._screen.write(piece)

        answer: Answer | None = None
        try:
            answer = self._answerer.answer([*system, *self._said, asked], self._sampling, show)
        except KeyboardInterrupt:
            if not self._screen.is_interactive:
                raise
        self._screen.write("\n")
        self._screen.note("stopped" if answer is None else answer.summary())
        self._said += [asked, {"role": "assistant", "content": text}]
