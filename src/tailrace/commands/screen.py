"""What a chat shows and reads: prompts and figures on a terminal, the bare text of answers in a pipe."""

import contextlib
import importlib
import sys

from rich.console import Console

__all__ = ["Screen"]


class Screen:
    def __init__(self, *, is_interactive: bool) -> None:
        self.is_interactive = is_interactive
        self._console = Console(stderr=True, highlight=False, markup=False)
        if is_interactive:
            with contextlib.suppress(ImportError):  # not every Python has it; `input` edits lines with it
                importlib.import_module("readline")

    def read(self) -> str | None:
        """The next line of the user; None at the end of input."""
        try:
            return input("> " if self.is_interactive else "")
        except EOFError:
            return None

    def write(self, text: str) -> None:
        """Show a piece of an answer at once."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Tell a person something that is no part of the answer."""
        if self.is_interactive:
            self._console.print(text, style="dim")
