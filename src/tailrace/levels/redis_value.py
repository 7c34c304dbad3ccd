"""How a block lies in Redis: one value, a header and the bytes.

     0  magic "TRKV"            24  name        104  xxh3 of the 104 bytes before and of all bytes behind
     4  version, u16            40  parent      112  keys and values, `length` bytes
     6  bytes of header, u16    56  tenant
     8  length, u64             72  fingerprint
    16  written at, u64         88  content

Written at: the newest version of the log of forgets that its writer had taken in.

Numbers are little-endian. Whatever is not exactly so is no block.
"""

from struct import Struct

from xxhash import xxh3_64

from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import StoredBlock

__all__ = ["HEADER_BYTES", "VERSION", "WRITTEN_AT", "head_of", "key_prefix", "origin_of", "pack", "unpack_into"]

VERSION = 1
WRITTEN_AT = (16, 23)  # the first and the last byte of that field

_MAGIC = b"TRKV"
_FRONT = Struct("<4sHHQQ16s16s16s16s16s")
_CHECKSUM = Struct("<Q")
HEADER_BYTES = _FRONT.size + _CHECKSUM.size


def pack(block: StoredBlock, written_at: int) -> bytes:
    """The value of a block."""
    front = _FRONT.pack(_MAGIC, VERSION, HEADER_BYTES, block.data.nbytes, written_at, *block.head)
    return b"".join((front, _CHECKSUM.pack(_checksum(front, block.data)), block.data))


def key_prefix(fingerprint: bytes = b"") -> bytes:
    """What the keys of a fingerprint begin with, or those of all; the name follows, in hexadecimal too."""
    return f"tailrace:{VERSION}:{fingerprint.hex()}{':' if fingerprint else ''}".encode()


def head_of(value: bytes) -> BlockHead | None:
    """What the header at the start of a value says; None when there is no header of this version."""
    if len(value) < HEADER_BYTES:
        return None
    magic, version, header_bytes, _, _, *names = _FRONT.unpack_from(value)
    if (magic, version, header_bytes) != (_MAGIC, VERSION, HEADER_BYTES):
        return None
    return BlockHead(*names)


def origin_of(value: bytes) -> tuple[BlockHead, int]:
    """What the header of a whole value says: the block, and the version of the log it was written at."""
    _, _, _, _, written_at, *names = _FRONT.unpack_from(value)
    return BlockHead(*names), written_at


def unpack_into(value: bytes, name: bytes, into: memoryview) -> bool:
    """Copy the bytes out if the value is whole and is the block of this name and size; else leave `into` as it is."""
    head = head_of(value)
    if head is None or head.name != name or len(value) - HEADER_BYTES != into.nbytes:
        return False
    front, data = value[: _FRONT.size], memoryview(value)[HEADER_BYTES:]
    if _FRONT.unpack(front)[3] != into.nbytes or _CHECKSUM.unpack_from(value, _FRONT.size)[0] != _checksum(front, data):
        return False
    into[:] = data
    return True


def _checksum(front: bytes, data: memoryview) -> int:
    digest = xxh3_64(front)
    digest.update(data)
    return digest.intdigest()
