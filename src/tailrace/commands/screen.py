"""What a chat shows and reads: a person's terminal, or a pipe, which gets the bare answers.

On a terminal thoughts are dim and calls of tools are in boxes; in a pipe thoughts are left out, and a call is a line of
JSON.
"""

import contextlib
import importlib
import json
import sys

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from tailrace.bench.pieces import Piece
from tailrace.commands.spoken import Call

__all__ = ["Screen"]

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Screen:
    def __init__(self, *, is_interactive: bool) -> None:
        self.is_interactive = is_interactive
        self._is_thinking = False
        self._console = Console(stderr=True, highlight=False, markup=False)
        if is_interactive:
            with contextlib.suppress(ImportError):  # not every Python has it; `input` edits lines with it
                importlib.import_module("readline")

    def read(self, prompt: str = "> ") -> str | None:
        """The next line of the user; None at the end of input."""
        try:
            return input(prompt if self.is_interactive else "")
        except EOFError:
            return None

    def show(self, piece: Piece) -> None:
        """Show more of an answer at once."""
        if piece.reasoning and self.is_interactive:
            self._switch(is_thinking=True)
            sys.stdout.write(piece.reasoning)
        if piece.text:
            self._switch(is_thinking=False)
            sys.stdout.write(piece.text)
        sys.stdout.flush()

    def end(self, calls: list[Call]) -> None:
        """The answer is over; show what it calls."""
        self._switch(is_thinking=False)
        sys.stdout.write("\n")
        for call in calls:
            self._show_call(call)
        sys.stdout.flush()

    def _switch(self, *, is_thinking: bool) -> None:
        if is_thinking != self._is_thinking:
            self._is_thinking = is_thinking
            sys.stdout.write(_DIM if is_thinking else f"{_PLAIN}\n\n")

    def _show_call(self, call: Call) -> None:
        if self.is_interactive:
            box = Panel(Text(_readable(call.arguments)), title=Text(call.name), title_align="left", expand=False)
            Console(highlight=False).print(box)
        else:
            sys.stdout.write(json.dumps({"name": call.name, "arguments": call.arguments}) + "\n")

    def note(self, text: str) -> None:
        """Tell a person something that is no part of the answer."""
        if self.is_interactive:
            self._console.print(text, style="dim")


def _readable(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # shown as the model wrote it
        return arguments
