"""A small DeepSeek-V3 that comes with the package: weights that mean something, for tests and first tries.

`scripts/tiny_deepseek` trained it; the file holds its vocabulary, chat template and MTP head too.
"""

from pathlib import Path

__all__ = ["TINY_DEEPSEEK_NAME", "tiny_deepseek_path"]

TINY_DEEPSEEK_NAME = "tiny-deepseek"


def tiny_deepseek_path() -> Path:
    """The model's GGUF file."""
    return Path(__file__).with_name("tiny_deepseek.gguf")
