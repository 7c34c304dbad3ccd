"""The files of the console's page, read once. They hold no secret, and ask nobody but this server for anything."""

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["PageFile", "page_files"]

_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    content_type: str
    etag: bytes


@cache
def page_files() -> dict[str, PageFile]:
    """By their paths below static/."""
    return {path: _read(file) for path, file in _walk(files("tailrace.frontends") / "console" / "static", "")}


def _walk(directory: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in directory.iterdir():
        path = f"{prefix}{entry.name}"
        found += _walk(entry, f"{path}/") if entry.is_dir() else [(path, entry)]
    return found


def _read(file: Traversable) -> PageFile:
    content = file.read_bytes()
    suffix = file.name[file.name.rfind(".") :]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
    is_text = kind.startswith("text/") or suffix == ".svg"
    etag = b'"%s"' % hashlib.blake2b(content, digest_size=16).hexdigest().encode()
    return PageFile(content, f"{kind}; charset=utf-8" if is_text else kind, etag)
