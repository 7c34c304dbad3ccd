from tailrace.frontends.faults import trace_of


def fall(depth: int) -> None:
    if depth:
        fall(depth - 1)
    raise ValueError("a prompt, /a/path")


def fall_over() -> None:
    try:
        fall(0)
    except ValueError as error:
        raise KeyError("a prompt") from error


def caught(depth: int | None) -> BaseException:
    try:
        fall_over() if depth is None else fall(depth)
    except (ValueError, KeyError) as error:
        return error
    raise AssertionError


def test_a_fault_is_known_by_its_kind_and_its_place() -> None:
    line = trace_of(caught(0))
    assert line.startswith(f"ValueError at {__name__}.fall:")
    assert f" < {__name__}.caught:" in line
    assert "prompt" not in line
    assert "/" not in line


def test_what_it_came_from_is_named_too() -> None:
    kind, cause = trace_of(caught(None)).split(", from ")
    assert kind.startswith(f"KeyError at {__name__}.fall_over:")
    assert cause.startswith(f"ValueError at {__name__}.fall:")


def test_a_line_stays_a_line_however_deep_it_was() -> None:
    assert len(trace_of(caught(200))) < 2000
    assert trace_of(RuntimeError("never raised")) == "RuntimeError"
    error = ValueError()
    error.__cause__ = error
    assert trace_of(error) == "ValueError"
