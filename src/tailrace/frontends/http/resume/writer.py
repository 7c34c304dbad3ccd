"""The frames of a completion with the `id` of each, by which its client can go on where it was."""

from dataclasses import replace

from tailrace.frontends.http.errors import Failure
from tailrace.frontends.http.openai.chunks import ChunkWriter, in_frames
from tailrace.frontends.http.resume.marks import Marks
from tailrace.service.api import ChoiceDelta, Usage

__all__ = ["MarkedWriter"]


class MarkedWriter:
    """A FrameWriter over another: writes only what is behind the marks, and moves them."""

    def __init__(self, frames: ChunkWriter, marks: Marks) -> None:
        self._frames = frames
        self._marks = marks
        self.keep_alive = frames.keep_alive
        for index, mark in enumerate(marks.choices):
            if mark.is_open:
                frames.pass_over(index, is_finished=mark.is_finished)

    @property
    def is_complete(self) -> bool:
        """Whether all choices have ended."""
        return self._frames.is_complete

    def write(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None) -> None:
        """Appends the frames of a delta, each with its id. Raises when its choice failed."""
        mark = self._marks.choices[delta.index]
        if not mark.is_open:
            mark.is_open = True
            frame = bytearray()
            self._frames.open(frame, delta, usage)
            self._append(buffer, frame)
        for part in _parts(delta):
            mark.move(part)
            self._write_marked(buffer, part, usage)
        if delta.finish_reason is not None:
            mark.is_finished = True
            self._write_marked(buffer, replace(delta, text="", logprobs=(), reasoning="", calls=()), usage)

    def close(self, buffer: bytearray, usage: Usage | None) -> None:
        """Appends what is left: the usage, unless it was sent, and the end mark."""
        if usage is None or self._marks.has_usage:
            self._frames.close(buffer, None)
            return
        self._marks.has_usage = True
        buffer += self._marks.line
        self._frames.close(buffer, usage)

    def failure(self, failure: Failure) -> bytes:
        """A frame without an id: what was to come in its place can still be asked for."""
        return self._frames.failure(failure)

    def _write_marked(self, buffer: bytearray, delta: ChoiceDelta, usage: Usage | None) -> None:
        """One frame, or none where the format has none."""
        frame = bytearray()
        self._frames.write(frame, delta, usage)
        self._append(buffer, frame)

    def _append(self, buffer: bytearray, frame: bytearray) -> None:
        if frame:
            buffer += self._marks.line
            buffer += frame


def _parts(delta: ChoiceDelta) -> list[ChoiceDelta]:
    """A delta as several, each of one frame or none. The tokens come with the first, and their log probabilities."""
    index = delta.index
    parts = [ChoiceDelta(index, "", reasoning=delta.reasoning)] if delta.reasoning else []
    if delta.text or (delta.logprobs and not parts) or not (parts or delta.calls):
        parts.append(ChoiceDelta(index, delta.text))
    parts += [ChoiceDelta(index, "", calls=(call,)) for call in in_frames(delta.calls)]
    parts[0].token_ids, parts[0].logprobs = delta.token_ids, delta.logprobs
    return parts
