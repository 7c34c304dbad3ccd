import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.mapped import map_file
from tests.support.resident import resident_kib

NUM_BYTES = 1 << 20
PAGE = mmap.PAGESIZE


def test_released_pages_leave_memory_and_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(range(256)) * (NUM_BYTES // 256))
    file = map_file(path)
    values = file.array(np.uint8, NUM_BYTES, 0)

    total = int(values.astype(np.int64).sum())
    before = resident_kib(path)
    file.release()
    after = resident_kib(path)

    assert before == NUM_BYTES // 1024
    assert after == 0
    assert int(values.astype(np.int64).sum()) == total == 255 * NUM_BYTES // 2


@pytest.mark.parametrize(
    ("span", "released"),
    [((0, PAGE), 1), ((1, 3 * PAGE - 1), 1), ((1, PAGE), 0), ((5, 9), 0), ((PAGE, NUM_BYTES), 255)],
)
def test_pages_that_others_share_stay(tmp_path: Path, span: tuple[int, int], released: int) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(NUM_BYTES))
    file = map_file(path)
    file.array(np.uint8, NUM_BYTES, 0).sum()

    file.release(span)

    assert resident_kib(path) == (NUM_BYTES - released * PAGE) // 1024


def test_a_file_that_was_written_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(bytes(100))
    mapped = map_file(path)
    mapped.check_unchanged()
    path.write_bytes(b"x" * 100)
    os.utime(path, ns=(0, mapped.version.written[1] + 1))
    with pytest.raises(CheckpointError, match="model: was written to while it was read"):
        mapped.check_unchanged()


def test_a_file_that_is_gone_was_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(bytes(100))
    mapped = map_file(path)
    path.unlink()
    mapped.check_unchanged()


def test_any_bytes_may_be_read_ahead(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 64)
    file = map_file(path)
    for span in ((0, 1), (4097, 9000), (0, 1 << 20), (5, 5), (1 << 20, 1 << 21)):
        file.read_ahead(span)

    assert file.array(np.uint8, 2, 255).tolist() == [255, 0]
