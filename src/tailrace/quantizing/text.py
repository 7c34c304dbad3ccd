"""The texts that methods are calibrated with and perplexity is measured on: never the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailrace.errors import SetupError
from tailrace.quantizing.forward import TokenIds
from tailrace.service.tokenizer import Tokenizer
from tailrace.weights.checkpoint import Checkpoint

__all__ = ["CALIBRATION_TOKENS", "HELD_OUT_TOKENS", "TextReader"]

CALIBRATION_TOKENS = 4096
HELD_OUT_TOKENS = 2000  # as many as benchmarks/quality takes, of the same text

_CALIBRATION_SEQUENCE = 512
_MIN_CALIBRATION_TOKENS = 256
_MAX_TEXT_BYTES = 1 << 20  # more than enough for the tokens that are taken
_CALIBRATION = Path(__file__).with_name("calibration.txt")
_HELD_OUT = Path(__file__).with_name("held_out.txt")


@dataclass(frozen=True, slots=True)
class TextReader:
    """Makes a model's tokens of texts."""

    tokenizer: Tokenizer
    bos_ids: Sequence[int]
    max_tokens: int
    vocab_size: int

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "TextReader":
        """Raises CheckpointError or UnsupportedModel for a vocabulary that cannot be read."""
        bos = checkpoint.bos_id if checkpoint.add_bos else None
        config = checkpoint.config
        tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
        return cls(tokenizer, () if bos is None else (bos,), config.max_model_tokens, config.vocab_size)

    def calibration(self, file: Path | None) -> TokenIds:
        """The beginning of a text of many words, or of `file`, in sequences [N, L].

        Paragraphs that are held out are left out. Raises SetupError for a file that cannot be read or is too short.
        """
        held_out = {_words(paragraph) for paragraph in _paragraphs(_HELD_OUT)}
        paragraphs = [text for text in _paragraphs(file or _CALIBRATION) if _words(text) not in held_out]
        ids = self._ids("\n\n".join(paragraphs))[:CALIBRATION_TOKENS]
        if len(ids) < _MIN_CALIBRATION_TOKENS:
            raise SetupError(
                f"{file or _CALIBRATION}: {len(ids)} tokens are too few to calibrate with (paragraphs that perplexity "
                f"is measured on do not count): give a text of {_MIN_CALIBRATION_TOKENS} or more"
            )
        return self._sequences(ids, _CALIBRATION_SEQUENCE)

    def held_out(self, num_tokens: int = HELD_OUT_TOKENS) -> TokenIds:
        """The text that perplexity is measured on: `num_tokens` are foretold, in one sequence if the model can."""
        length = num_tokens + 1
        return self._sequences(self._ids(_read(_HELD_OUT))[: length - len(self.bos_ids)], length)

    def _ids(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(text, allow_control=False)
        if max(ids, default=0) >= self.vocab_size:
            raise SetupError(f"the vocabulary has a token {max(ids)}, and the embedding {self.vocab_size} rows")
        return ids

    def _sequences(self, ids: list[int], length: int) -> TokenIds:
        """Each begins as a prompt does, and is no longer than the model takes; what is left over is dropped."""
        length = min(min(length, self.max_tokens) - len(self.bos_ids), len(ids))
        cut = [[*self.bos_ids, *ids[begin : begin + length]] for begin in range(0, len(ids) - length + 1, length)]
        return np.array(cut, np.int64)


def _paragraphs(file: Path) -> list[str]:
    return [paragraph for paragraph in _read(file).split("\n\n") if paragraph.strip()]


def _words(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_TEXT_BYTES)
            if len(data) == _MAX_TEXT_BYTES:
                data = data[: data.rfind(b"\n") + 1]  # no half character
    except OSError as error:
        raise SetupError(f"{file} cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SetupError(f"{file} is no text in UTF-8: {error.reason} at byte {error.start}") from error
