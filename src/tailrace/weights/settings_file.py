"""Files of settings beside the weights: small, plain, and read as a whole or not at all."""

import os
from pathlib import Path

from tailrace.errors import CheckpointError

__all__ = ["is_there", "read_settings_file"]

_PIECE_BYTES = 1 << 20


def is_there(path: Path) -> bool:
    """Whether there is something of that name, be it a link to what is gone: that is damage, not a missing file."""
    return os.path.lexists(path)


def read_settings_file(path: Path, max_bytes: int) -> bytes:
    """The content of a plain file. Raises CheckpointError; what has no end, a pipe or a device, is not begun."""
    content = bytearray()
    try:
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path}: not a file")
        with path.open("rb") as file:
            while len(content) <= max_bytes and (piece := file.read(_PIECE_BYTES)):
                content += piece
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > max_bytes:
        raise CheckpointError(f"{path}: more than {max_bytes} bytes, which is too much for a settings file")
    return bytes(content)
