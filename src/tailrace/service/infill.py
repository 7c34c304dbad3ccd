"""How a code model is asked for what belongs between two texts: by control tokens around them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.service.vocabulary import Vocabulary

__all__ = ["InfillMarkup", "find_infill"]


@dataclass(frozen=True, slots=True)
class InfillMarkup:
    """`begin` prefix `hole` suffix `end`, behind which the model writes the middle, and then `stop`.

    Instruct models end their turns with another token than the middle, which they learned before they were tuned.
    """

    begin: str
    hole: str
    end: str
    stop: str

    @property
    def strings(self) -> tuple[str, ...]:
        return self.begin, self.hole, self.end

    def pieces(self, prefix: str, suffix: str) -> list[str]:
        """A prompt cut up: text at even places, markup at odd ones."""
        return ["", self.begin, prefix, self.hole, suffix, self.end]


_KNOWN = (
    InfillMarkup("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<｜end▁of▁sentence｜>"),  # DeepSeek
    InfillMarkup("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|endoftext|>"),  # Qwen
)


def find_infill(vocabulary: Vocabulary, vocab_size: int) -> InfillMarkup | None:
    """The markup that a vocabulary has, as far as the model has rows for it; None: it cannot fill in."""
    return next((markup for markup in _KNOWN if _has_all(vocabulary, markup.strings, vocab_size)), None)


def _has_all(vocabulary: Vocabulary, strings: Sequence[str], vocab_size: int) -> bool:
    return all(vocabulary.added.get(string, vocab_size) < vocab_size for string in strings)
