"""A short name for the weights: two checkpoints with the same fingerprint compute the same keys and values."""

from collections.abc import Iterable, Sequence

import xxhash

from tailrace.weights.mapped import MappedFile, Span

__all__ = ["fingerprint"]

_WHOLE_BYTES = 1 << 30  # up to here all bytes are hashed: 10 GB/s makes that a tenth of a second
_SAMPLE_BYTES = 1 << 16  # at each end of a tensor, or less where there are many: experts come by the ten thousand
_MIN_SAMPLE_BYTES = 1 << 10
_SAMPLED_BYTES = 1 << 27


def fingerprint(files: Sequence[tuple[MappedFile, Sequence[Span]]], settings: Iterable[bytes]) -> str:
    """Hash `settings` and the files: wholly, or, of a large model, their heads and both ends of every tensor."""
    digest = xxhash.xxh3_128()
    for part in settings:
        digest.update(len(part).to_bytes(8, "little") + part)
    is_large = sum(file.size for file, _ in files) > _WHOLE_BYTES
    sample_bytes = _sample_bytes(sum(len(spans) for _, spans in files))
    for file, spans in files:
        digest.update(file.size.to_bytes(8, "little"))
        if is_large:
            _sample(digest, file, spans, sample_bytes)
        else:
            file.populate()
            digest.update(file.mapping)
    return digest.hexdigest()


def _sample_bytes(num_tensors: int) -> int:
    return min(_SAMPLE_BYTES, max(_MIN_SAMPLE_BYTES, _SAMPLED_BYTES // (2 * max(num_tensors, 1))))


def _sample(digest: "xxhash.xxh3_128", file: MappedFile, spans: Sequence[Span], sample_bytes: int) -> None:
    view = memoryview(file.mapping)
    first = file.size
    with file.looked_at_here_and_there():
        for begin, end in spans:
            first = min(first, begin)
            digest.update(view[begin : min(begin + sample_bytes, end)])
            digest.update(view[max(begin, end - sample_bytes) : end])
    digest.update(view[:first])
    file.release()
