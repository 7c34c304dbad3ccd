"""Stop strings: which one ends a text, and what may be given out before that is known."""

import pytest

from tailrace.service.stop import StopMatcher, StopStrings


def _run(stops: list[str], *chunks: str, include_stop: bool = False) -> tuple[list[str], str | None]:
    """What each chunk lets out, then what the end does."""
    matcher = StopMatcher(StopStrings(stops), include_stop=include_stop)
    out = []
    for chunk in chunks:
        out.append(matcher.feed(chunk))
        if matcher.matched is not None:
            return out, matcher.matched
    return [*out, matcher.finish()], None


def test_text_before_the_stop_string_is_kept_and_the_rest_dropped() -> None:
    assert _run(["STOP"], "one STOP two") == (["one "], "STOP")


def test_a_stop_string_split_over_chunks_does_not_leak() -> None:
    assert _run(["STOP"], "one S", "T", "OP two") == (["one ", "", ""], "STOP")


def test_held_text_comes_out_when_it_turns_out_harmless() -> None:
    assert _run(["STOP"], "one ST", "ART") == (["one ", "START", ""], None)


def test_held_text_comes_out_at_the_end() -> None:
    assert _run(["STOP"], "one ST") == (["one ", "ST"], None)


def test_only_what_could_still_match_is_held() -> None:
    assert _run(["aab"], "xa", "a", "a", "a") == (["x", "", "a", "a", "aa"], None)


def test_a_match_that_begins_inside_a_failed_one_is_found() -> None:
    assert _run(["ababc"], "abababc!") == (["ab"], "ababc")


@pytest.mark.parametrize("stops", [["abcd", "bc"], ["bc", "abcd"]])
def test_the_stop_string_complete_first_wins(stops: list[str]) -> None:
    assert _run(stops, "xabcd") == (["xa"], "bc")


@pytest.mark.parametrize("stops", [["bc", "abc"], ["abc", "bc"]])
def test_of_two_that_end_together_the_longer_wins(stops: list[str]) -> None:
    assert _run(stops, "xabc") == (["x"], "abc")


def test_a_stop_string_with_a_shorter_one_inside_is_never_reached() -> None:
    assert _run(["<end>", "<"], "a<end>") == (["a"], "<")


def test_the_stop_string_is_part_of_the_text_on_request() -> None:
    assert _run(["STOP"], "one STOP two", include_stop=True) == (["one STOP"], "STOP")


def test_nothing_needs_holding_when_the_stop_string_is_included() -> None:
    assert _run(["STOP"], "one ST", "OP two", include_stop=True) == (["one ST", "OP"], "STOP")


def test_stop_strings_of_any_characters_work() -> None:
    assert _run(["。\n"], "中文。", "\n好") == (["中文", ""], "。\n")


def test_text_passes_where_no_stop_string_has_begun_or_begins() -> None:
    matcher = StopMatcher(StopStrings(["ab"]))
    assert matcher.passes("b")
    assert not matcher.passes("xa")
    matcher.feed("a")
    assert not matcher.passes("x")


def test_what_comes_behind_the_end_of_a_text_begins_anew() -> None:
    for include_stop in (False, True):
        matcher = StopMatcher(StopStrings(["ab"]), include_stop=include_stop)
        assert matcher.feed("a") + matcher.finish() == "a"
        assert matcher.num_held == 0
        assert matcher.feed("b") == "b"


def test_a_match_tells_what_is_left_out_and_what_is_behind() -> None:
    for include_stop, num_cut in ((False, 2), (True, 0)):
        matcher = StopMatcher(StopStrings(["ab"]), include_stop=include_stop)
        matcher.feed("xa")
        matcher.feed("bcd")
        assert (matcher.num_behind, matcher.num_cut) == (2, num_cut)
