"""The expected values in tests/oracle/data: computed by transformers in float32, kept small. See its README."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["DATA", "TOLERANCE", "Prose", "Text", "TinyModel", "greedy_models", "texts", "tiny_models"]

DATA = Path(__file__).parents[1] / "oracle" / "data"
TOLERANCE = 1e-3  # absolute, of a logit


@dataclass(frozen=True, slots=True)
class TinyModel:
    """A random model, some tokens, the logits [tokens, vocab] behind each, and what it writes behind the first."""

    directory: Path
    token_ids: list[int]
    logits: NDArray[np.float32]
    greedy_ids: list[int]  # behind the prompt; none of the models that are not asked for text

    @property
    def prompt_ids(self) -> list[int]:
        return self.token_ids[:16]

    @classmethod
    def read(cls, name: str) -> "TinyModel":
        expected = np.load(DATA / "tiny" / name / "expected.npz")
        greedy_ids = expected["greedy_ids"].tolist() if "greedy_ids" in expected else []
        return cls(DATA / "tiny" / name, expected["token_ids"].tolist(), expected["logits"], greedy_ids)


def tiny_models() -> list[str]:
    return sorted(directory.name for directory in (DATA / "tiny").iterdir())


def greedy_models() -> list[str]:
    """Those that are asked for text: DeepSeek's."""
    return [name for name in tiny_models() if name.startswith("deepseek")]


@dataclass(frozen=True, slots=True)
class Text:
    """A short text, and of a model's logits the `columns` and the best few behind each token."""

    token_ids: list[int]
    columns: NDArray[np.int32]
    logits: NDArray[np.float32]  # [tokens, columns]
    best_ids: NDArray[np.int32]  # [tokens, 4], best first
    best_logits: NDArray[np.float32]

    def largest_error(self, logits: NDArray[np.float32]) -> float:
        """The largest distance of `logits` [tokens, vocab] from a known value."""
        among_columns = np.abs(logits[:, self.columns] - self.logits).max()
        among_best = np.abs(np.take_along_axis(logits, self.best_ids, axis=1) - self.best_logits).max()
        return float(max(among_columns, among_best))


def texts(model: str = "default_model") -> list[Text]:
    kept = np.load(DATA / model / "texts.npz")
    return [
        Text(
            token_ids=kept["token_ids"][begin:end].tolist(),
            columns=kept["columns"],
            logits=kept["logits"][begin:end],
            best_ids=kept["best_ids"][begin:end],
            best_logits=kept["best_logits"][begin:end],
        )
        for begin, end in pairwise(kept["starts"])
    ]


@dataclass(frozen=True, slots=True)
class Prose:
    """2001 tokens of a novel, and a model's 2000 predictions: of the true token, and of its best few."""

    token_ids: list[int]
    logprobs: NDArray[np.float32]  # [2000], of token_ids[1:]
    best_ids: NDArray[np.int32]  # [2000, 4], best first
    best_logits: NDArray[np.float32]

    @classmethod
    def read(cls, model: str = "default_model") -> "Prose":
        kept = np.load(DATA / model / "prose.npz")
        return cls(kept["token_ids"].tolist(), kept["logprobs"], kept["best_ids"], kept["best_logits"])
