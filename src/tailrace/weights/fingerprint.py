"""A short name for the weights: two checkpoints with the same fingerprint compute the same keys and values."""

from collections.abc import Iterable

import xxhash

from tailrace.weights.mapped import MappedFile, Span

__all__ = ["fingerprint"]

_WHOLE_BYTES = 1 << 30  # up to here all bytes are hashed: 10 GB/s makes that a tenth of a second
_SAMPLE_BYTES = 1 << 16


def fingerprint(files: Iterable[tuple[MappedFile, Iterable[Span]]], settings: Iterable[bytes]) -> str:
    """Hash `settings` and the files: each wholly, or, of a large one, its head and both ends of every tensor."""
    digest = xxhash.xxh3_128()
    for part in settings:
        digest.update(len(part).to_bytes(8, "little") + part)
    for file, spans in files:
        digest.update(file.size.to_bytes(8, "little"))
        if file.size <= _WHOLE_BYTES:
            file.populate()
            digest.update(file.mapping)
        else:
            _sample(digest, file, spans)
    return digest.hexdigest()


def _sample(digest: "xxhash.xxh3_128", file: MappedFile, spans: Iterable[Span]) -> None:
    view = memoryview(file.mapping)
    first = file.size
    for begin, end in spans:
        first = min(first, begin)
        digest.update(view[begin : min(begin + _SAMPLE_BYTES, end)])
        digest.update(view[max(begin, end - _SAMPLE_BYTES) : end])
    digest.update(view[:first])
