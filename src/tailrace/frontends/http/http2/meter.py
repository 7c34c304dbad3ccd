"""What the frames that arrive cost the server, seen before anything is done about them: their headers alone are read.

length u24 | type u8 | flags u8 | stream u32 | payload of `length` bytes          RFC 9113, 4.1
"""

from tailrace.errors import TailraceError

__all__ = ["FrameMeter", "FrameTooLong"]

_HEADER_BYTES = 9
_MAX_FRAME_BYTES = 16384  # what every peer may send; we announce no more
_DATA, _RST_STREAM = 0, 3
_SMALL_BYTES = 256
_RESET_COST = 8.0  # it wastes what its stream had begun


class FrameTooLong(TailraceError):
    """A frame says that it is longer than it may be. The h2 library would collect all of it before it objects."""


class FrameMeter:
    """Walks over what is received, `num_preface_bytes` of which come first."""

    __slots__ = ("_head", "_skip_bytes")

    def __init__(self, num_preface_bytes: int) -> None:
        self._skip_bytes = num_preface_bytes  # of what is under way
        self._head = b""  # of the next frame, as far as it is there

    def cost(self, data: bytes) -> float:
        """Of the frames whose headers end in `data`. Raises FrameTooLong."""
        total, place = 0.0, 0
        while place < len(data):
            if self._skip_bytes:
                passed = min(self._skip_bytes, len(data) - place)
                self._skip_bytes -= passed
            else:
                passed = min(_HEADER_BYTES - len(self._head), len(data) - place)
                self._head += data[place : place + passed]
                total += self._frame_cost()
            place += passed
        return total

    def _frame_cost(self) -> float:
        """Of the frame whose header has just become complete."""
        if len(self._head) < _HEADER_BYTES:
            return 0.0
        length, kind = int.from_bytes(self._head[:3]), self._head[3]
        self._head, self._skip_bytes = b"", length
        if length > _MAX_FRAME_BYTES:
            raise FrameTooLong(f"a frame of {length} bytes is longer than {_MAX_FRAME_BYTES}")
        if kind == _RST_STREAM:
            return _RESET_COST
        return 0.0 if kind == _DATA and length >= _SMALL_BYTES else 1.0
