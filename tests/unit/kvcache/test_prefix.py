from collections.abc import Sequence
from typing import overload

import pytest

from tailrace.kvcache.block import Block, BlockTable, Node, Owner
from tailrace.kvcache.naming import BlockNamer
from tailrace.kvcache.prefix import InFlight, PrefixIndex

TOKENS = list(range(100, 112))
OWNER = Owner(b"fingerprint", b"tenant", b"root")


def names(token_ids: Sequence[int], salt: str = "", parts: tuple[str, ...] = ("model",)) -> list[bytes]:
    namer = BlockNamer(4, parts)
    table = BlockTable(namer.owner(salt))
    namer.extend(table, token_ids, len(token_ids) // 4)
    return table.names


def test_equal_prefixes_have_equal_names() -> None:
    assert names([*TOKENS, 1, 2, 3, 4])[:3] == names(TOKENS)


@pytest.mark.parametrize("position", range(12))
def test_a_token_changes_its_block_and_all_behind_it_only(position: int) -> None:
    changed = list(TOKENS)
    changed[position] = 7
    same = [left == right for left, right in zip(names(changed), names(TOKENS), strict=True)]
    assert same == [index < position // 4 for index in range(3)]


def test_equal_tokens_at_another_place_have_another_name() -> None:
    assert len(set(names([5] * 12))) == 3


@pytest.mark.parametrize(
    ("salt", "parts"),
    [("tenant", ("model",)), ("", ("other",)), ("", ("model", "int8")), ("", ("mod", "el")), ("", ("",)), ("", ())],
)
def test_all_that_changes_keys_and_values_changes_every_name(salt: str, parts: tuple[str, ...]) -> None:
    assert not set(names(TOKENS, salt, parts)) & set(names(TOKENS))


def test_names_do_not_depend_on_how_a_chain_was_extended() -> None:
    namer = BlockNamer(4, ("model",))
    table = BlockTable(namer.owner(""))
    for num_blocks in (1, 1, 0, 3):
        namer.extend(table, TOKENS, num_blocks)
    assert table.names == names(TOKENS)


def test_names_are_the_same_on_every_machine() -> None:
    assert [name.hex() for name in names([1, 2, 3, 2**32 - 1])] == ["75a58ed243f31fde6f9d55a8b24b7512"]


class WatchedTokens(Sequence[int]):
    """Remembers which tokens were read."""

    def __init__(self, token_ids: list[int]) -> None:
        self._token_ids = token_ids
        self.num_read = 0

    def __len__(self) -> int:
        return len(self._token_ids)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        found = self._token_ids[index]
        self.num_read += len(found) if isinstance(found, list) else 1
        return found


def test_each_token_is_read_once_in_the_life_of_a_chain() -> None:
    namer = BlockNamer(4, ("model",))
    table = BlockTable(namer.owner(""))
    tokens = WatchedTokens(list(range(400)))
    for num_tokens in range(401):
        namer.extend(table, tokens, num_tokens // 4)
    assert tokens.num_read == 400


@pytest.mark.parametrize(
    ("present", "limit", "expected"),
    [
        ("abcdef", 6, "ef"),
        ("abcdef", 3, "bc"),
        ("cdef", 6, "ef"),
        ("abcdf", 6, "cd"),  # "f" alone lacks a block that the row behind it sees
        ("acef", 5, "a"),  # so does "e", and "c"; nothing lies before "a"
        ("bcef", 5, "bc"),
        ("bdf", 6, ""),
        ("", 6, ""),
        ("abcdef", 0, ""),
    ],
)
def test_the_longest_prefix_shows_its_last_two_blocks(present: str, limit: int, expected: str) -> None:
    index, names = PrefixIndex(), [letter.encode() for letter in "abcdef"]
    for number, letter in enumerate(present):
        index.add(Block(number, node=Node(letter.encode(), OWNER)))

    first, blocks = index.longest_seen(names, limit, lambda end: max(end - 2, 0))

    assert b"".join(block.name or b"" for block in blocks).decode() == expected
    assert first == (names.index(expected[0].encode()) if expected else 0)


def test_in_flight_follows_the_run_of_awaited_names_only() -> None:
    in_flight = InFlight()
    in_flight.begin(BlockTable(OWNER, [b"a", b"b", b"c"]))
    assert in_flight.last_of([b"a", b"b", b"x", b"c"], 0, 4) == b"b"
    assert in_flight.last_of([b"a", b"b", b"c"], 1, 2) == b"b"
    assert in_flight.last_of([b"x", b"a"], 0, 2) is None


def test_in_flight_keeps_names_of_another_owner() -> None:
    in_flight = InFlight()
    first, second = BlockTable(OWNER, [b"a", b"b"]), BlockTable(OWNER, [b"a", b"c"])
    in_flight.begin(first)
    in_flight.begin(second)
    in_flight.abandon(second)
    assert b"a" in in_flight
    assert b"c" not in in_flight
    in_flight.abandon(first)
    assert len(in_flight) == 0


def test_the_root_joins_what_the_model_is_with_whose_the_prompt_is() -> None:
    namer, other_model = BlockNamer(4, ("model",)), BlockNamer(4, ("other",))
    assert namer.fingerprint != other_model.fingerprint
    assert namer.owner("a").tenant == other_model.owner("a").tenant != namer.owner("b").tenant
    roots = {each.owner(salt).root for each in (namer, other_model) for salt in ("a", "b")}
    assert len(roots) == 4
    assert {len(part) for part in (namer.fingerprint, namer.owner("a").tenant, *roots)} == {16}
