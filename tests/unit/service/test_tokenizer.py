"""Text to ids and back, for both spellings and from both kinds of file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Encoder

from tailrace.errors import CheckpointError, InvalidRequest, UnsupportedModel
from tailrace.service.gguf_tokenizer import read_gguf_vocabulary
from tailrace.service.tokenizer import Tokenizer
from tests.support.text import (
    CONTROL,
    MARKUP,
    byte_level_tokenizer,
    byte_level_vocabulary,
    sentencepiece_tokenizer,
    sentencepiece_vocabulary,
)

TEXTS = [
    "",
    "hello the the hello",
    "  leading and trailing  ",
    "tabs\tand\n\nlines\r\n",
    "año, naïve, e\u0301",
    "中文 カナ 한국어",
    "😀😀 👩‍👩‍👧 !",
    "12345 and 6.7",
    "a\x00b",
    "don't WON'T",
]
PRE_TOKENIZERS = [
    "default",
    "gpt-2",
    "smollm",
    "llama-bpe",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
]


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_text_survives_a_round_trip(pre: str, text: str) -> None:
    tokenizer = byte_level_tokenizer(pre)
    assert tokenizer.decode(tokenizer.encode(text, allow_control=False)) == text


@pytest.mark.parametrize("pre", ["qwen2", "deepseek-r1-qwen"])
def test_qwen_composes_characters_first(pre: str) -> None:
    tokenizer = byte_level_tokenizer(pre)
    assert tokenizer.decode(tokenizer.encode("e\u0301", allow_control=False)) == "é"


@pytest.mark.parametrize("add_space_prefix", [True, False])
@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith(" ")])
def test_sentencepiece_text_survives_a_round_trip(text: str, add_space_prefix: bool) -> None:
    tokenizer = sentencepiece_tokenizer(add_space_prefix=add_space_prefix)
    assert tokenizer.decode(tokenizer.encode(text, allow_control=False)) == text


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("gpt-2", ["Don", "'t", " 1234", " ", " go", "!!"]),
        ("smollm", ["Don", "'t", " ", "1", "2", "3", "4", " ", " go", "!!"]),
        ("llama-bpe", ["Don", "'t", " ", "123", "4", " ", " go", "!!"]),
        ("qwen2", ["Don", "'t", " ", "1", "2", "3", "4", " ", " go", "!!"]),
        ("deepseek-llm", ["Don", "'", "t", " ", "1", "2", "3", "4", " ", " go", "!!"]),
        ("deepseek-coder", ["Don", "'", "t", " ", "1", "2", "3", "4", " ", " go", "!!"]),
        ("deepseek-v3", ["Don", "'t", " ", "123", "4", " ", " go", "!!"]),
    ],
)
def test_each_pre_tokenizer_cuts_words_its_own_way(pre: str, words: list[str]) -> None:
    # Every word is a token of its own, reached by merging its characters from the left.
    spelled = [word.replace(" ", "Ġ") for word in ["Don", "'t", " 1234", "1234", "123", "  ", " go", "!!", "  go"]]
    merges = list(dict.fromkeys(f"{word[:end]} {word[end]}" for word in spelled for end in range(1, len(word))))
    letters = sorted({letter for word in spelled for letter in word})
    tokens = letters + [merge.replace(" ", "") for merge in merges]
    source = replace(byte_level_vocabulary(pre), tokens=tokens, token_types=[1] * len(tokens), merges=merges)
    tokenizer = Tokenizer.from_source(source)
    assert [tokenizer.token_text(i) for i in tokenizer.encode("Don't 1234  go!!", allow_control=False)] == words


def test_sentencepiece_joins_the_best_scored_neighbours() -> None:
    tokenizer = sentencepiece_tokenizer()
    ids = tokenizer.encode("hello world é", allow_control=False)
    assert [tokenizer.vocabulary.pieces[i] for i in ids] == ["▁hello", "▁world", "▁", "é"]


@pytest.mark.parametrize(("better", "pieces"), [("ab", ["ab", "c"]), ("bc", ["a", "bc"])])
def test_sentencepiece_goes_by_score_and_not_by_id(better: str, pieces: list[str]) -> None:
    tokens = ["a", "b", "c", "bc", "ab"]
    scores = [-1.0 if token == better else -5.0 for token in tokens]
    source = replace(sentencepiece_vocabulary(add_space_prefix=False), tokens=tokens, scores=scores)
    tokenizer = Tokenizer.from_source(replace(source, token_types=[1] * len(tokens)))
    assert [tokenizer.token_text(i) for i in tokenizer.encode("abc", allow_control=False)] == pieces


def test_sentencepiece_spells_unknown_characters_in_bytes() -> None:
    tokenizer = sentencepiece_tokenizer(add_space_prefix=False)
    ids = tokenizer.encode("😀", allow_control=False)
    assert b"".join(map(tokenizer.token_bytes, ids)) == "😀".encode()
    assert len(ids) == 4


def test_markup_in_user_text_is_ordinary_text() -> None:
    tokenizer = byte_level_tokenizer()
    for markup in MARKUP:
        ids = tokenizer.encode(f"x{markup}y", allow_control=False)
        assert not set(ids) & set(tokenizer.vocabulary.added.values())
        assert tokenizer.decode(ids) == f"x{markup}y"


def test_markup_counts_where_it_is_allowed() -> None:
    tokenizer = byte_level_tokenizer()
    ids = tokenizer.encode("<|im_start|>hello<|im_end|>", allow_control=True)
    assert (ids[0], ids[-1]) == (1, 2)
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<|im_start|>hello<|im_end|>"


def test_only_control_tokens_are_hidden() -> None:
    tokenizer = byte_level_tokenizer()
    hidden = [tokenizer.is_control(tokenizer.vocabulary.added[markup]) for markup in MARKUP]
    assert hidden == [markup in CONTROL for markup in MARKUP]


def test_every_byte_has_a_token_of_its_own() -> None:
    tokenizer = byte_level_tokenizer()
    singles = [tokenizer.token_bytes(i) for i in range(len(MARKUP), len(MARKUP) + 256)]
    assert sorted(singles) == [bytes([byte]) for byte in range(256)]


def test_ids_outside_the_vocabulary_have_no_bytes() -> None:
    tokenizer = byte_level_tokenizer()
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b""
    assert tokenizer.token_bytes(-1) == b""


class _Spy:
    """An encoder that remembers how it was called."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        self.calls.append(name)
        return getattr(self._encoder, name)


def test_long_texts_are_encoded_by_the_call_that_lets_other_threads_run() -> None:
    vocabulary, encoders = read_gguf_vocabulary(byte_level_vocabulary())
    spy = _Spy(encoders.opening)
    tokenizer = Tokenizer(vocabulary, replace(encoders, opening=cast("Encoder", spy)))
    for text, call in (("hello", "encode"), ("hello the " * 5000, "encode_batch_fast")):
        spy.calls.clear()
        assert tokenizer.encode(text, allow_control=False) == encoders.opening.encode(text).ids
        assert spy.calls == [call]


@pytest.mark.parametrize("length", [0, 10_000])
def test_a_lone_surrogate_is_refused(length: int) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        byte_level_tokenizer().encode("x" * length + "\ud800", allow_control=False)


def test_unknown_pre_tokenizer_is_named() -> None:
    with pytest.raises(UnsupportedModel, match="'klingon'"):
        byte_level_tokenizer("klingon")


def test_unknown_vocabulary_model_is_named() -> None:
    with pytest.raises(UnsupportedModel, match="'rwkv'"):
        Tokenizer.from_source(replace(byte_level_vocabulary(), model="rwkv"))


def test_a_merge_of_no_token_is_a_damaged_file() -> None:
    source = byte_level_vocabulary()
    with pytest.raises(CheckpointError, match="merges"):
        Tokenizer.from_source(replace(source, merges=[*source.merges, "x y"]))


def test_a_merge_to_more_than_any_token_is_a_damaged_file() -> None:
    source = byte_level_vocabulary()
    longest = max(source.tokens, key=len)
    ordinary = replace(source, token_types=[1] * len(source.tokens), merges=[f"{longest} {longest}"])
    with pytest.raises(CheckpointError, match="merges do not fit the vocabulary"):
        Tokenizer.from_source(ordinary)


def test_missing_token_types_are_a_damaged_file() -> None:
    with pytest.raises(CheckpointError, match="token types"):
        Tokenizer.from_source(replace(byte_level_vocabulary(), token_types=[1]))


def test_missing_scores_are_a_damaged_file() -> None:
    with pytest.raises(CheckpointError, match="scores"):
        Tokenizer.from_source(replace(sentencepiece_vocabulary(), scores=[]))


def _byte_level_file(path: Path) -> Encoder:
    """A tokenizer.json such as DeepSeek's: markup behind the model's own ids, most of it not special."""
    source = byte_level_vocabulary()
    ids = {piece: i for i, piece in enumerate(source.tokens[len(MARKUP) :])}
    encoder = Encoder(models.BPE(vocab=ids, merges=[(a, b) for a, b in (m.split(" ") for m in source.merges)]))
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = decoders.ByteLevel()
    encoder.add_special_tokens([AddedToken("<｜bos｜>", special=True, normalized=False)])
    encoder.add_tokens([AddedToken("<｜User｜>"), AddedToken("<think>"), AddedToken("   "), AddedToken("<｜")])
    encoder.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<end>", rstrip=True)])
    encoder.save(str(path))
    return encoder


FILE_TEXTS = [
    *TEXTS,
    "<｜bos｜>hello<｜User｜> the <think>\n",
    "a   b    c",
    "<｜Us <｜｜>",
    "the <mask> the <end>  hello",
]


@pytest.mark.parametrize("text", FILE_TEXTS)
def test_tokenizer_json_encodes_as_its_own_library_does(tmp_path: Path, text: str) -> None:
    theirs = _byte_level_file(tmp_path / "tokenizer.json")
    ours = Tokenizer.from_source(tmp_path / "tokenizer.json")
    ids = ours.encode(text, allow_control=True)
    assert ids == theirs.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids, skip_special_tokens=False) == theirs.decode(ids, skip_special_tokens=False)
    assert ours.decode(ids) == theirs.decode(ids)


def test_tokenizer_json_keeps_markup_that_is_not_special_out_of_user_text(tmp_path: Path) -> None:
    _byte_level_file(tmp_path / "tokenizer.json")
    tokenizer = Tokenizer.from_source(tmp_path / "tokenizer.json")
    added = tokenizer.vocabulary.added
    ids = tokenizer.encode("<｜User｜> <think> a   b", allow_control=False)
    assert set(ids) & set(added.values()) == {added["   "]}
    assert tokenizer.decode(ids) == "<｜User｜> <think> a   b"


def _sentencepiece_file(path: Path, prepend_scheme: str) -> Encoder:
    source = sentencepiece_vocabulary()
    ids = {piece: i for i, piece in enumerate(source.tokens)}
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("▁", "hello"), ("▁", "w")]
    encoder = Encoder(models.BPE(vocab=ids, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    encoder.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme, split=False)
    strip = [decoders.Strip(" ", 1, 0)] if prepend_scheme != "never" else []
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    encoder.decoder = decoders.Sequence(steps)
    encoder.add_special_tokens(["<unk>", "<s>", "</s>"])
    encoder.save(str(path))
    return encoder


@pytest.mark.parametrize("prepend_scheme", ["always", "first", "never"])
@pytest.mark.parametrize(
    "text", ["hello", "<s>hello</s>hello", "hello<s>hello", " hello", "h中é😀w", "hello </s> w", ""]
)
def test_sentencepiece_json_encodes_as_its_own_library_does(tmp_path: Path, prepend_scheme: str, text: str) -> None:
    theirs = _sentencepiece_file(tmp_path / "tokenizer.json", prepend_scheme)
    ours = Tokenizer.from_source(tmp_path / "tokenizer.json")
    ids = ours.encode(text, allow_control=True)
    assert ids == theirs.encode(text, add_special_tokens=False).ids
    assert ours.decode(ids) == theirs.decode(ids)


def test_legacy_sentencepiece_json_puts_a_space_behind_markup(tmp_path: Path) -> None:
    theirs = _sentencepiece_file(tmp_path / "tokenizer.json", "never")
    theirs.pre_tokenizer = pre_tokenizers.Sequence([])
    theirs.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    theirs.save(str(tmp_path / "tokenizer.json"))
    ids = Tokenizer.from_source(tmp_path / "tokenizer.json").encode("<s>hello</s>hello w", allow_control=True)
    assert ids == theirs.encode("<s>hello</s>hello w", add_special_tokens=False).ids


def test_a_tokenizer_json_that_the_library_panics_over_is_named(tmp_path: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    with pytest.raises(CheckpointError, match=r"not a readable tokenizer\.json"):
        Tokenizer.from_source(tmp_path / "tokenizer.json")


def test_a_damaged_tokenizer_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"')
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        Tokenizer.from_source(tmp_path / "tokenizer.json")


def test_a_decoder_of_another_kind_is_named(tmp_path: Path) -> None:
    encoder = Encoder(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    encoder.decoder = decoders.WordPiece()
    encoder.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UnsupportedModel, match="WordPiece"):
        Tokenizer.from_source(tmp_path / "tokenizer.json")
