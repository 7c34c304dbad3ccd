"""A vocabulary of all bytes, some words and pieces of JSON, and special tokens, made within milliseconds."""

import numpy as np

from tailrace.guides.vocabulary import GuideVocabulary, TokenTable

WORDS = (
    *('{"', '":', '": "', '","', '"}', '"]', "},", "}}", "]]", "[[", '[{"', "true", "false", "null", "  ", "\n  "),
    *(
        "name",
        "age",
        "tags",
        "ab",
        "abc",
        "the",
        " the",
        "hello",
        " world",
        "é",
        "日本",
        "12",
        "123",
        "</",
        "think",
        ">",
    ),
    *("<think>", "</think>", '{"name": "', "aaaa", "aaaaaaaa"),
)
SPECIAL = ("<end>", "<call>", "</call>", "<sep>")
TOKENS = [bytes([byte]) for byte in range(256)] + [word.encode() for word in WORDS + SPECIAL]
ID = {token: place for place, token in enumerate(TOKENS)}
SPECIAL_IDS = frozenset(ID[name.encode()] for name in SPECIAL)
END = ID[b"<end>"]
NUM_TOKENS = 320  # more than there are, as an output layer may have


def small_vocabulary() -> GuideVocabulary:
    return GuideVocabulary(lambda: TokenTable(TOKENS, SPECIAL_IDS, (END,)), NUM_TOKENS)


def encoded(text: str) -> list[int]:
    """By the longest token at each place; special tokens too."""
    raw, token_ids = text.encode(), list[int]()
    while raw:
        longest = max((token for token in TOKENS if raw.startswith(token)), key=len)
        token_ids.append(ID[longest])
        raw = raw[len(longest) :]
    return token_ids


def decoded(token_ids: list[int]) -> str:
    return b"".join(TOKENS[token_id] for token_id in token_ids if token_id != END).decode()


def allowed_ids(mask: "np.typing.NDArray[np.uint32]") -> list[int]:
    return [32 * word + bit for word, bits in enumerate(mask.tolist()) for bit in range(32) if bits >> bit & 1]
