"""Named blocks for tests of the levels: their bytes follow from their names, so a wrong block shows."""

from collections.abc import Sequence
from hashlib import blake2b, shake_128
from itertools import pairwise

from tailrace.kvcache.naming import root_of
from tailrace.kvcache.transfer import BlockHead
from tailrace.levels.api import BlockLevel, StoredBlock

__all__ = [
    "BLOCK_BYTES",
    "FINGERPRINT",
    "TENANT",
    "block",
    "chain",
    "contents",
    "fetch",
    "fetched",
    "stored",
    "version_of",
    "word",
]


def word(label: object) -> bytes:
    """16 bytes that stand for it."""
    return blake2b(repr(label).encode(), digest_size=16).digest()


BLOCK_BYTES = 1000
FINGERPRINT, TENANT = word("model"), word("tenant")


def contents(name: bytes, block_bytes: int = BLOCK_BYTES) -> bytes:
    """What the block of this name holds."""
    return shake_128(name).digest(block_bytes)


def chain(label: object, num_blocks: int, tenant: bytes = TENANT, fingerprint: bytes = FINGERPRINT) -> list[BlockHead]:
    """The heads of a prompt's blocks, first to last."""
    names = [word((tenant, fingerprint, label, index)) for index in range(num_blocks)]
    names.insert(0, root_of(fingerprint, tenant))
    return [
        BlockHead(name, parent, tenant, fingerprint, word((label, index)))
        for index, (parent, name) in enumerate(pairwise(names))
    ]


def stored(heads: Sequence[BlockHead], block_bytes: int = BLOCK_BYTES) -> list[StoredBlock]:
    return [StoredBlock(head, memoryview(contents(head.name, block_bytes))) for head in heads]


def block(
    name: bytes,
    parent: bytes | None = None,
    tenant: bytes = TENANT,
    fingerprint: bytes = FINGERPRINT,
    block_bytes: int = BLOCK_BYTES,
) -> StoredBlock:
    """One block; without a parent, the first of a chain."""
    front = parent or root_of(fingerprint, tenant)
    (made,) = stored([BlockHead(name, front, tenant, fingerprint, word(("content", name)))], block_bytes)
    return made


def fetch(
    level: BlockLevel, names: Sequence[bytes], block_bytes: int = BLOCK_BYTES, before: Sequence[bytes] = ()
) -> list[bytes]:
    """What a level gives for these names, from the first on; `before` are those in front of them."""
    buffers = [bytearray(block_bytes) for _ in names]
    arrived = level.get(names, [memoryview(buffer) for buffer in buffers], before)
    return [bytes(buffer) for buffer in buffers[:arrived]]


def fetched(level: BlockLevel, heads: Sequence[BlockHead], block_bytes: int = BLOCK_BYTES) -> int:
    """How many of them a level gives; each that it gives is right."""
    given = fetch(level, [head.name for head in heads], block_bytes)
    for head, data in zip(heads, given, strict=False):
        assert data == contents(head.name, block_bytes), "a wrong block"
    return len(given)


def version_of(level: BlockLevel) -> int:
    return 0 if level.log is None else level.log.version()
