"""A GGUF file in several parts is one model, whichever part is named."""

from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.gguf_checkpoint import open_gguf
from tests.unit.weights.model_files import TINY, gguf_metadata, gguf_tensors, write_gguf, write_gguf_part

NAMES = [f"tiny-0000{number}-of-00003.gguf" for number in (1, 2, 3)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The tiny model in three parts: metadata alone, then the tensors in two."""
    _, tensors = gguf_tensors(TINY, {}, {})
    names = list(tensors)
    for index, share in enumerate([[], names[:9], names[9:]]):
        metadata = gguf_metadata(TINY) if index == 0 else {}
        split = {"split.no": index, "split.count": 3}
        write_gguf_part(tmp_path / NAMES[index], metadata | split, {name: tensors[name] for name in share})
    return tmp_path


def rewrite(path: Path, index: int, count: int) -> None:
    write_gguf_part(path, {"split.no": index, "split.count": count}, {})


@pytest.mark.parametrize("name", NAMES)
def test_every_part_leads_to_the_whole(directory: Path, name: str) -> None:
    values = write_gguf(directory / "whole.gguf")
    checkpoint = open_gguf(directory / name)
    assert checkpoint.name == "tiny"
    assert checkpoint.stored_bytes == sum((directory / part).stat().st_size for part in NAMES[1:])
    for ours, expected in values.items():
        np.testing.assert_array_equal(checkpoint.tensors[ours].dequantize(), expected)


def test_a_part_that_is_not_there_is_named(directory: Path) -> None:
    (directory / NAMES[2]).unlink()
    with pytest.raises(CheckpointError, match=rf"{NAMES[2]}: no such file"):
        open_gguf(directory / NAMES[0])


def test_a_part_under_another_name_says_what_the_name_must_be(directory: Path) -> None:
    part = (directory / NAMES[0]).rename(directory / "first.gguf")
    with pytest.raises(CheckpointError, match=r"one of 3 parts, whose name must end in -00001-of-00003\.gguf"):
        open_gguf(part)


@pytest.mark.parametrize(("index", "count"), [(0, 3), (1, 4)])
def test_a_part_of_something_else_is_refused(directory: Path, index: int, count: int) -> None:
    rewrite(directory / NAMES[1], index, count)
    with pytest.raises(CheckpointError, match=rf"{NAMES[1]}: says it is part {index + 1} of {count}"):
        open_gguf(directory / NAMES[0])


def test_a_tensor_in_two_parts_is_refused(directory: Path) -> None:
    _, tensors = gguf_tensors(TINY, {}, {})
    write_gguf_part(directory / NAMES[2], {"split.no": 2, "split.count": 3}, tensors)
    with pytest.raises(CheckpointError, match=rf"{NAMES[2]}: tensor '.*' is in an earlier part too"):
        open_gguf(directory / NAMES[0])


def test_a_count_that_nobody_would_split_into_is_refused(directory: Path) -> None:
    rewrite(directory / NAMES[0], 0, 1 << 30)
    with pytest.raises(CheckpointError, match=r"split\.count is 1073741824, it must be between 0 and 1024"):
        open_gguf(directory / NAMES[0])
