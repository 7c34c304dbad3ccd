import itertools

import pytest

from tailrace.errors import EngineError
from tailrace.scheduler.lifecycle import RequestState, moved

LEGAL = {
    ("waiting", "running"),
    ("waiting", "deferred"),
    ("waiting", "finished"),
    ("deferred", "waiting"),
    ("deferred", "finished"),
    ("running", "waiting"),
    ("running", "finished"),
}


@pytest.mark.parametrize(("state", "to"), list(itertools.product(RequestState, RequestState)))
def test_only_moves_of_the_table_are_legal(state: RequestState, to: RequestState) -> None:
    if (state, to) in LEGAL:
        assert moved(state, to) is to
    else:
        with pytest.raises(EngineError, match=f"from {state} to {to}"):
            moved(state, to)
