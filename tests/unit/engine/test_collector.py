import gc
from collections.abc import Iterator

import pytest

from tailrace.engine.collector import freeze_loaded, settle_collector


@pytest.fixture
def collector() -> Iterator[None]:
    """As it was before, afterwards."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("collector")
def test_what_is_there_is_visited_no_more() -> None:
    kept: list[list[object]] = [[] for _ in range(1_000)]
    settle_collector()
    assert gc.get_freeze_count() > len(kept)
    assert not any(kept[0] is each for each in gc.get_objects())


@pytest.mark.usefixtures("collector")
def test_what_was_loaded_is_visited_no_more() -> None:
    kept: list[list[object]] = [[] for _ in range(1_000)]
    freeze_loaded()
    assert gc.get_freeze_count() > len(kept)
    assert not any(kept[0] is each for each in gc.get_objects())


@pytest.mark.usefixtures("collector")
def test_young_objects_are_collected_as_before_and_all_of_them_seldom() -> None:
    young, middle, _ = gc.get_threshold()
    settle_collector()
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] >= 1_000
