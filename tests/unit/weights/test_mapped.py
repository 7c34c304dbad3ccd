from pathlib import Path

import numpy as np

from tailrace.weights.mapped import map_file

NUM_BYTES = 1 << 20


def resident_kib(path: Path) -> int:
    """How much of a mapped file this process holds in memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    total = 0
    for line in lines:
        if line.endswith(str(path)):
            total += next(int(field.split()[1]) for field in lines if field.startswith("Rss:"))
    return total


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
