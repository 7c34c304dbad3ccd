"""Seeds of choices."""

from tailrace.service.seeds import choice_seed, draw_seed


def test_choice_seeds_are_the_splitmix64_sequence() -> None:
    # The first outputs for seed 1234567, as published with the generator.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [choice_seed(1234567, index) for index in range(3)] == expected


def test_seeds_of_any_size_and_sign_give_64_bits() -> None:
    assert all(0 <= choice_seed(seed, 5) < 2**64 for seed in (-1, 0, 2**70, -(2**63)))
    assert choice_seed(-1, 0) == choice_seed(2**64 - 1, 0)


def test_drawn_seeds_differ() -> None:
    assert len({draw_seed() for _ in range(8)}) == 8
