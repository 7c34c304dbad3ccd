import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from tailrace.errors import GuideError
from tailrace.guides.matcher import GuideMatcher
from tailrace.guides.vocabulary import GuideVocabulary, TokenTable
from tailrace.types import Guide
from tests.unit.guides.small_vocabulary import END, ID, NUM_TOKENS, TOKENS, allowed_ids, encoded, small_vocabulary

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
VOCABULARY = small_vocabulary()


def matcher(grammar: str, text: str = "") -> GuideMatcher:
    return GuideMatcher(VOCABULARY, Guide(grammar), encoded(text))


def allowed(standing: GuideMatcher) -> set[bytes]:
    mask = np.full(VOCABULARY.num_words, 0xFFFFFFFF, np.uint32)
    standing.fill(mask)
    return {TOKENS[token_id] for token_id in allowed_ids(mask)}


def test_the_mask_has_the_tokens_that_a_regular_expression_lets_follow() -> None:
    assert allowed(matcher("start: /(ab|abc|12)!/")) == {b"a", b"ab", b"abc", b"1", b"12"}
    assert allowed(matcher("start: /(ab|abc|12)!/", "ab")) == {b"c", b"!"}


def test_tokens_that_do_not_exist_are_never_allowed() -> None:
    mask = np.full(VOCABULARY.num_words, 0xFFFFFFFF, np.uint32)
    matcher(r"start: /(.|\n)*/").fill(mask)
    assert set(allowed_ids(mask)) == {place for place, token in enumerate(TOKENS) if is_text_begin(token)} | {END}
    assert len(TOKENS) < NUM_TOKENS


def is_text_begin(token: bytes) -> bool:
    """Whether it is no special token, and begins a text in UTF-8."""
    if token in {b"<call>", b"</call>", b"<sep>", b"<end>"}:
        return False
    return not (0x80 <= token[0] < 0xC2 or token[0] > 0xF4)


def test_the_end_is_allowed_when_the_text_is_whole() -> None:
    standing = matcher("start: /ab*/")
    assert (standing.allows_end, b"<end>" in allowed(standing)) == (False, False)
    standing.accept(ID[b"a"])
    assert (standing.allows_end, b"<end>" in allowed(standing)) == (True, True)
    assert not standing.is_stopped


def test_what_can_only_end_has_stopped() -> None:
    standing = matcher("start: /ab/", "ab")
    assert standing.is_stopped
    assert standing.allows_end
    assert allowed(standing) == {b"<end>"}
    standing.accept(END)
    assert standing.allows_end


def test_special_tokens_are_allowed_by_their_ids_and_are_no_text() -> None:
    grammar = f'start: TEXT <[{ID[b"<call>"]}]> "ab"\nTEXT: /(.|\\n)*/'
    assert b"<call>" in allowed(matcher(grammar, "the"))
    assert b"</call>" not in allowed(matcher(grammar, "the"))
    assert allowed(matcher(grammar, "the<call>")) == {b"a", b"ab"}


def test_an_end_that_a_grammar_names_as_if_it_were_text_is_no_text() -> None:
    both = f'start: <[{END}]> | "a"'
    assert allowed(matcher(both)) == {b"a"}
    assert TOKENS[END] in allowed(matcher(both, "a"))


def test_any_cutting_into_tokens_is_taken() -> None:
    grammar = f"start: %json {json.dumps(PERSON)}"
    for cutting in (['{"', "name", '":', ' "'], ["{", '"', "n", "a", "m", "e", '"', ":", '"']):
        standing = matcher(grammar)
        for piece in cutting:
            for token_id in encoded(piece):
                standing.accept(token_id)
        assert not standing.allows_end
    assert {b'{"', b'{"name": "', b"{"} <= allowed(matcher(grammar))


def test_a_token_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(GuideError):
        matcher("start: /ab/").accept(ID[b"1"])
    with pytest.raises(GuideError, match="may not end here"):
        matcher("start: /ab/").accept(END)
    ended = matcher("start: /ab*/", "a")
    ended.accept(END)
    with pytest.raises(GuideError):
        ended.accept(ID[b"b"])


def test_a_grammar_that_makes_no_sense_says_why() -> None:
    with pytest.raises(GuideError, match="unknown"):
        matcher("start: nobody")
    with pytest.raises(GuideError, match="end"):
        GuideMatcher(GuideVocabulary(lambda: TokenTable([b"a"], frozenset(), ()), 1), Guide("start: /a/"))


def test_the_tokens_are_read_once_by_whichever_thread_is_first() -> None:
    read = []

    def read_tokens() -> TokenTable:
        read.append(threading.current_thread())
        return TokenTable(TOKENS, frozenset(), (END,))

    vocabulary = GuideVocabulary(read_tokens, NUM_TOKENS)
    assert read == []
    threads = [threading.Thread(target=vocabulary.load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 1


def test_llguidance_is_loaded_when_a_format_is_asked_for() -> None:
    code = "import sys, tailrace.guides.guided; sys.exit('llguidance' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
