"""A prompt while it is written: what the format writes is kept apart from what people said."""

from tailrace.service.formats.format import EncodedChat

__all__ = ["PromptWriter"]


class PromptWriter:
    def __init__(self) -> None:
        self._runs: list[list[str]] = [[]]  # said, written, said, ...
        self._opened: list[str] | None = None

    def write(self, text: str) -> None:
        """Text of the format: markup counts in it."""
        self._add(text, is_written=True)

    def say(self, text: str) -> None:
        """Text of somebody else: markup in it is ordinary text."""
        self._add(text, is_written=False)

    def open_answer(self) -> None:
        """What comes from here on belongs to the answer."""
        self._opened = []

    def done(self) -> EncodedChat:
        return EncodedChat(["".join(run) for run in self._runs], "".join(self._opened or ()))

    def _add(self, text: str, *, is_written: bool) -> None:
        if self._opened is not None:
            self._opened.append(text)
        if is_written is (len(self._runs) % 2 == 0):
            self._runs[-1].append(text)
        else:
            self._runs.append([text])
