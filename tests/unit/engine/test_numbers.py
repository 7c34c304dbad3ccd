from tailrace.engine.numbers import Numbers, generation_of, worker_of


def test_numbers_tell_who_gave_them() -> None:
    numbers = Numbers(3, 0x1_0002)
    first, second = numbers.next(), numbers.next()
    assert second == first + 1
    assert worker_of(second) == 3
    assert generation_of(second) == 2  # modulo 2^16


def test_no_two_of_a_server_are_alike() -> None:
    given = {Numbers(worker, generation).next() for worker in range(64) for generation in range(64)}
    assert len(given) == 64 * 64
    assert max(given) < 2**64
