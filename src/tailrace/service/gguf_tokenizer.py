"""Reads the vocabulary inside a GGUF file: byte-level BPE with merges, or SentencePiece with scores."""

from tokenizers import Tokenizer, models, normalizers

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.service.pretokenize import NFC_NORMALIZED, WHOLE_WORD_FIRST, pre_tokenizer
from tailrace.service.vocabulary import Spelling, TextEncoders, Vocabulary
from tailrace.weights.checkpoint import GgufVocabulary

__all__ = ["read_gguf_vocabulary"]

_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 2, 3, 4, 5  # tokenizer.ggml.token_type
_SPELLINGS = {"gpt2": Spelling.BYTE_LEVEL, "llama": Spelling.SENTENCEPIECE}
_SPACE = "\u2581"
_MAX_PIECE_CHARS = 1 << 10  # all ways to cut one are tried; published ones have some hundred at most


def read_gguf_vocabulary(source: GgufVocabulary) -> tuple[Vocabulary, TextEncoders]:
    """Raises CheckpointError for damaged data, UnsupportedModel for a kind of vocabulary not known here."""
    try:
        return _read(source)
    except ModelError as error:
        raise type(error)(f"{source.file}: {error}") from error


def _read(source: GgufVocabulary) -> tuple[Vocabulary, TextEncoders]:
    spelling = _SPELLINGS.get(source.model)
    if spelling is None:
        raise UnsupportedModel(
            f"tokenizer {source.model!r} (tokenizer.ggml.model) is not supported; known are {', '.join(_SPELLINGS)}"
        )
    if len(source.tokens) != len(source.token_types):
        raise CheckpointError(
            f"the vocabulary has {len(source.tokens)} tokens but {len(source.token_types)} token types; "
            "the GGUF file is damaged"
        )
    encoder = _byte_level(source) if spelling is Spelling.BYTE_LEVEL else _sentencepiece(source)
    return _vocabulary_of(source, spelling), TextEncoders(opening=encoder, inner=encoder)


def _vocabulary_of(source: GgufVocabulary, spelling: Spelling) -> Vocabulary:
    kinds = source.token_types
    return Vocabulary(
        pieces=source.tokens,
        spelling=spelling,
        added={source.tokens[i]: i for i, kind in enumerate(kinds) if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)},
        control=frozenset(i for i, kind in enumerate(kinds) if kind in (_UNKNOWN, _CONTROL)),
        strips_leading_space=spelling is Spelling.SENTENCEPIECE and source.add_space_prefix,
    )


def _ordinary_ids(source: GgufVocabulary) -> dict[str, int]:
    excluded = (_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED)
    return {
        piece: i
        for i, (piece, kind) in enumerate(zip(source.tokens, source.token_types, strict=True))
        if kind not in excluded
    }


def _byte_level(source: GgufVocabulary) -> Tokenizer:
    ids = _ordinary_ids(source)
    encoder = Tokenizer(_bpe(ids, list(map(_merge, source.merges)), ignore_merges=source.pre in WHOLE_WORD_FIRST))
    encoder.pre_tokenizer = pre_tokenizer(source.pre)
    if source.pre in NFC_NORMALIZED:
        encoder.normalizer = normalizers.NFC()
    return encoder


def _merge(text: str) -> tuple[str, str]:
    left, _, right = text.partition(" ")
    return left, right


def _bpe(ids: dict[str, int], merges: list[tuple[str, str]], **options: bool) -> models.BPE:
    # The library panics over such a merge, past every handler of exceptions.
    if (unknown := next((left + right for left, right in merges if left + right not in ids), None)) is not None:
        raise CheckpointError(
            f"the merges do not fit the vocabulary; the GGUF file is damaged: {unknown!r} is not a token"
        )
    try:
        return models.BPE(vocab=ids, merges=merges, **options)
    except Exception as error:  # the library raises nothing more specific
        raise CheckpointError(f"the merges do not fit the vocabulary; the GGUF file is damaged: {error}") from error


def _sentencepiece(source: GgufVocabulary) -> Tokenizer:
    if len(source.scores) != len(source.tokens):
        raise CheckpointError(
            f"the vocabulary has {len(source.tokens)} tokens but {len(source.scores)} scores; the GGUF file is damaged"
        )
    ids = _ordinary_ids(source)
    if (longest := max(map(len, ids), default=0)) > _MAX_PIECE_CHARS:
        raise CheckpointError(f"a token of {longest} characters; the GGUF file is damaged")
    encoder = Tokenizer(_bpe(ids, _merges_by_score(source, ids), byte_fallback=True))
    spaces = [normalizers.Replace(" ", _SPACE)]
    prefix = [normalizers.Prepend(_SPACE)] if source.add_space_prefix else []
    encoder.normalizer = normalizers.Sequence([*prefix, *spaces])
    return encoder


def _merges_by_score(source: GgufVocabulary, ids: dict[str, int]) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours whose union scores best; so each union is a merge, ranked by its score."""
    merges = [
        (source.scores[i], piece[:cut], piece[cut:])
        for piece, i in ids.items()
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    merges.sort(key=lambda merge: -merge[0])
    return [(left, right) for _, left, right in merges]
