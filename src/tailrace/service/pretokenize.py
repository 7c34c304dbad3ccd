"""The pre-tokenizers that GGUF files name: how text is cut into words before byte pairs are merged."""

from collections.abc import Callable
from functools import partial

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from tailrace.errors import UnsupportedModel

__all__ = ["NFC_NORMALIZED", "WHOLE_WORD_FIRST", "pre_tokenizer"]

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_HAN_TO_HANGUL = "[一-龥\u0800-一가-\ud7ff]+"

# Cased letters, less those blocks that Unicode cased or assigned after the tokenizer's list was made.
_DEEPSEEK_LLM_LETTER = (
    r"[\p{Lu}\p{Ll}\p{Lt}&&[^\u2d00-\u2d2d\ua78f-\ua7fa\uab30-\uab68"
    r"\x{10570}-\x{105bc}\x{16e40}-\x{16e7f}\x{1d400}-\x{1d7cb}\x{1df00}-\x{1df2a}]]"
)
_DEEPSEEK_V3_REST = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _splits(*patterns: str) -> list[PreTokenizer]:
    return [Split(Regex(pattern), "isolated") for pattern in patterns]


def _regex_only(*patterns: str) -> PreTokenizer:
    return Sequence([*_splits(*patterns), ByteLevel(add_prefix_space=False, use_regex=False)])


def _gpt2() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False)


def _single_digits_gpt2() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _gpt2()])


def _deepseek_llm() -> PreTokenizer:
    # The look-behind changes no match: it keeps a long run of spaces from being tried from each of its places.
    words = _splits(
        r"[\r\n]", rf"\s?{_DEEPSEEK_LLM_LETTER}+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"(?<!\s)\s+$", _HAN_TO_HANGUL
    )
    return Sequence([*words, Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=False)])


def _deepseek_coder() -> PreTokenizer:
    words = _splits(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN_TO_HANGUL)
    return Sequence([*words, Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=False)])


_llama3 = partial(_regex_only, rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_REST}")
_qwen2 = partial(_regex_only, rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_REST}")
_deepseek_v3 = partial(_regex_only, r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", _DEEPSEEK_V3_REST)

_BY_NAME: dict[str, Callable[[], PreTokenizer]] = {
    "default": _gpt2,
    "gpt-2": _gpt2,
    "smollm": _single_digits_gpt2,
    "starcoder": _single_digits_gpt2,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "qwen2": _qwen2,
    "deepseek-r1-qwen": _qwen2,
    "deepseek-llm": _deepseek_llm,
    "deepseek-coder": _deepseek_coder,
    "deepseek-v3": _deepseek_v3,
}

NFC_NORMALIZED = frozenset({"qwen2", "deepseek-r1-qwen"})  # these compose characters first
WHOLE_WORD_FIRST = frozenset({"llama-bpe", "llama3"})  # a word that is itself a token is not merged up to


def pre_tokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer that `tokenizer.ggml.pre` names. Raises UnsupportedModel for one not known here."""
    make = _BY_NAME.get(name or "default")
    if make is None:
        raise UnsupportedModel(
            f"pre-tokenizer {name!r} (tokenizer.ggml.pre) is not supported; known are {', '.join(sorted(_BY_NAME))}"
        )
    return make()
