"""A vocabulary for a model that has no text: enough for prompts of an exact length, and a text for every token."""

from collections.abc import Iterator

from tailrace.weights.checkpoint import GgufVocabulary

__all__ = ["BEGIN_ID_FROM_END", "END_ID_FROM_END", "synthetic_vocabulary"]

BEGIN_ID_FROM_END, END_ID_FROM_END = 2, 1  # the last two tokens

_TEXT = """
the and for with from that this they have been were said each which their time will about many then them these some
her would make like him into has look two more write see number way could people than first water call who oil its now
"""
_WORDS = _TEXT.split()
_SPACE = "Ġ"  # how byte-level vocabularies spell it
_NORMAL, _CONTROL = 1, 3  # tokenizer.ggml.token_type


def synthetic_vocabulary(size: int) -> GgufVocabulary:
    """Byte-level BPE of `size` tokens: all bytes, some common words behind a space, numbered fillers, begin and end."""
    merges = list(_merges())
    spelled = [*_byte_letters(), *(left + right for left, right in merges)]
    num_fillers = size - len(spelled) - 2
    if num_fillers < 0:
        raise ValueError(f"a vocabulary of {size} tokens holds no {len(spelled)} bytes and words")
    fillers = (f"{_SPACE}{number}" for number in range(num_fillers))
    return GgufVocabulary(
        model="gpt2",
        pre="gpt-2",
        tokens=[*spelled, *fillers, "<begin>", "<end>"],
        token_types=[_NORMAL] * (size - 2) + [_CONTROL] * 2,
        merges=[f"{left} {right}" for left, right in merges],
    )


def _merges() -> Iterator[tuple[str, str]]:
    """Each word grows letter by letter from the space before it: no merge competes with another."""
    known = set()
    for word in _WORDS:
        for end in range(len(word)):
            pair = _SPACE + word[:end], word[end]
            if pair not in known:
                known.add(pair)
                yield pair


def _byte_letters() -> Iterator[str]:
    """One letter for each byte: itself where it can be seen, else one from 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = 0
    for byte in range(256):
        yield chr(byte if byte in visible else 256 + hidden)
        hidden += byte not in visible
