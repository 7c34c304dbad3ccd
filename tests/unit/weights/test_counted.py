import numpy as np
import pytest

from tailrace.ops.packed import from_float32
from tailrace.weights.counted import CountedTensors


def test_each_tensor_counts_once() -> None:
    tensors = {name: from_float32(np.zeros((2, 2), np.float32)) for name in "abc"}
    seen: list[tuple[int, int]] = []
    counted = CountedTensors(tensors, lambda done, total: seen.append((done, total)))

    assert counted["a"] is tensors["a"]
    assert counted["b"] is tensors["b"]
    assert counted["a"] is tensors["a"]
    with pytest.raises(KeyError):
        counted["d"]

    assert seen == [(1, 3), (2, 3)]
    assert list(counted) == list(tensors)
