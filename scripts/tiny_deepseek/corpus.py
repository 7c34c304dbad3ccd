"""Jane Austen's six novels, in the public domain, as the Debian package r-cran-janeaustenr carries them."""

import hashlib
import re
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "r-cran-janeaustenr"
MEMBER = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
SHA256 = "e6589a933a54f5873703dd780d3ffc108633a8386a576449873580fa51705a4d"
HELD_OUT_NOVEL = 3
HELD_OUT_PARAGRAPHS = 60

_HEADING = re.compile(r"^\s*(?:volume|chapter) [ivxl\d]+\.?\s*$", re.IGNORECASE | re.MULTILINE)
_NOTE = re.compile(r"\[|\*|(?:finis|the end)$", re.IGNORECASE)
_STRING = struct.Struct(">II")
_CHARSXP = 9


def training_paragraphs() -> list[list[str]]:
    """The paragraphs of each novel, in their order, but for the end of one, which the model never sees."""
    novels = paragraphs()
    novels[HELD_OUT_NOVEL] = novels[HELD_OUT_NOVEL][:-HELD_OUT_PARAGRAPHS]
    return novels


def held_out_text() -> str:
    """The end of Persuasion."""
    return "\n\n".join(paragraphs()[HELD_OUT_NOVEL][-HELD_OUT_PARAGRAPHS:])


def paragraphs() -> list[list[str]]:
    """The paragraphs of each novel, in their order; headings and italics are left out."""
    novels = [_paragraphs("\n".join(_strings(novel))) for novel in _segments(_fetched())]
    digest = hashlib.sha256("\n".join(text for novel in novels for text in novel).encode()).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"the novels differ from those the model was trained with: SHA-256 {digest}")
    return novels


@cache
def _fetched() -> bytes:
    """The package's lazy-load data base: R's objects one behind the other."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["apt-get", "download", "--quiet", PACKAGE], cwd=directory, check=True)
        (package,) = Path(directory).glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, directory], check=True)
        return (Path(directory) / MEMBER).read_bytes()


def _segments(data: bytes) -> Iterator[bytes]:
    """Each object: its size in four bytes, then a zlib stream."""
    while data:
        stream = zlib.decompressobj()
        yield stream.decompress(data[4:])
        data = stream.unused_data


def _strings(serialised: bytes) -> Iterator[str]:
    """The elements of a character vector in R's serialisation: flags, length, bytes."""
    place = serialised.index(b"UTF-8") + 5 + 8  # the encoding, then the vector's own flags and length
    while place + _STRING.size <= len(serialised):
        flags, length = _STRING.unpack_from(serialised, place)
        if flags & 0xFF != _CHARSXP:
            return
        place += _STRING.size
        yield serialised[place : place + length].decode()
        place += length


def _paragraphs(novel: str) -> list[str]:
    """What stands behind the first heading, less headings and the notes of editors."""
    body, _, _ = novel.replace("_", "").partition("\nA NOTE ON THE TEXT\n")
    _, *chapters = _HEADING.split(body)
    blocks = (" ".join(block.split()) for chapter in chapters for block in re.split(r"\n\s*\n", chapter))
    return [block for block in blocks if block and not _NOTE.match(block)]
