"""Rings between a writer and a reader at once, and writers killed in the middle of a write. See ring.cpp."""

from pathlib import Path

import pytest

from tests.support.native import built_programs, run

HERE = Path(__file__).parent


# One under the thread sanitizer, one under those of addresses and undefined behaviour.
@pytest.mark.parametrize("program", ["ring", "ring_bounds"])
def test_what_was_published_arrives_whole_and_nothing_else_without_a_fault(program: str) -> None:
    assert run(built_programs(HERE) / program)[-1] == "all of 20000 messages and 60000 tokens"
