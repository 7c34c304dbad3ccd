import pytest

from tailrace.commands.quantity import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("512", 512),
        ("512B", 512),
        ("1k", 1024),
        ("256MiB", 256 << 20),
        ("256mib", 256 << 20),
        ("1.5G", 3 << 29),
        ("2 GiB", 2 << 30),
        ("2GB", 2_000_000_000),
        ("1T", 1 << 40),
    ],
)
def test_an_amount_is_read_with_or_without_a_unit(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "lots", "-1", "0", "0.1", "1PiB", "1e9", "1 2", "GiB"])
def test_what_is_no_amount_is_refused_with_what_was_given(text: str) -> None:
    with pytest.raises(ValueError, match=repr(text)):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("amount", "expected"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB")]
)
def test_an_amount_is_shown_with_the_unit_that_suits_it(amount: int, expected: str) -> None:
    assert format_bytes(amount) == expected
