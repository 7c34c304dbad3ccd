import pytest

from tailrace.types import packed


def test_packed_ids_take_four_bytes_each() -> None:
    token_ids = packed([1, 2], (), range(3, 5))
    assert token_ids.tolist() == [1, 2, 3, 4]
    assert token_ids.itemsize == 4


def test_packed_ids_are_a_copy() -> None:
    first = packed([1, 2**32 - 1])
    second = packed(first)
    second.append(3)
    assert first == packed([1, 2**32 - 1])


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_what_is_no_id_is_not_packed(token_id: int) -> None:
    with pytest.raises(OverflowError):
        packed([1, token_id])
