"""Groups of inputs: how many, and whether aligned runs of 32 stay together."""

from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.grouping import ONE_GROUP, Grouping, read_group_size
from tests.unit.weights.quantized.raw_files import raw, read_back


@pytest.mark.parametrize(
    ("num_inputs", "group_size", "num_groups", "has_runs"),
    [
        (128, 32, 4, True),
        (128, 64, 2, True),
        (160, 64, 3, True),
        (96, 200, 1, True),
        (96, ONE_GROUP, 1, True),
        (96, 48, 2, False),
        (96, 16, 6, False),
        (90, 32, 3, False),
        (90, ONE_GROUP, 1, False),
    ],
)
def test_neighbours_make_groups(num_inputs: int, group_size: int, num_groups: int, has_runs: bool) -> None:
    grouping = Grouping(num_inputs, group_size)
    assert (grouping.num_groups, grouping.has_runs) == (num_groups, has_runs)
    size = num_inputs if group_size == ONE_GROUP else group_size
    assert grouping.of_inputs().tolist() == [column // size for column in range(num_inputs)]
    assert grouping.of_runs().tolist() == [column // size for column in range(0, num_inputs, 32)]


@pytest.mark.parametrize(("moved", "has_runs"), [((), True), ((0, 64), False)])
def test_what_was_reordered_has_runs_only_by_luck(tmp_path: Path, moved: tuple[int, ...], has_runs: bool) -> None:
    groups = np.repeat([1, 0, 2], 32).astype(np.int32)
    groups[[*moved]] = groups[[*reversed(moved)]]
    stored = read_back(tmp_path / "m.safetensors", {"g": raw(groups)})["g"]
    grouping = Grouping(96, 32, stored, is_reordered=True)
    assert grouping.has_runs == has_runs
    np.testing.assert_array_equal(grouping.of_inputs(), groups)


@pytest.mark.parametrize(("table", "size"), [({}, 128), ({"group_size": 64}, 64), ({"group_size": -1}, ONE_GROUP)])
def test_a_size_is_read(table: dict[str, int], size: int) -> None:
    assert read_group_size(Fields("config.json", table)) == size


def test_a_group_of_nothing_is_refused() -> None:
    with pytest.raises(CheckpointError, match="group_size is 0, it must be the inputs of a group, or -1 for all"):
        read_group_size(Fields("config.json", {"group_size": 0}))
