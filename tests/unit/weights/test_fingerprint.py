"""The fingerprint changes with anything that changes keys and values, and with nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.weights import fingerprint as module
from tailrace.weights.gguf import read_gguf
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.precision import Precision
from tests.support.resident import resident_kib
from tests.unit.weights.model_files import write_directory, write_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    write_gguf(path)
    return path


def flip_byte(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_copy_has_the_same_fingerprint(path: Path) -> None:
    copy = path.with_name("copy.gguf")
    copy.write_bytes(path.read_bytes())
    assert open_gguf(copy).fingerprint == open_gguf(path).fingerprint


@pytest.mark.parametrize("place", [0.3, 0.5, 0.77, 0.999999])
def test_one_bit_of_any_weight_changes_it(path: Path, place: float) -> None:
    before = open_gguf(path).fingerprint
    flip_byte(path, int(place * path.stat().st_size))
    assert open_gguf(path).fingerprint != before


def test_quantising_changes_it(path: Path) -> None:
    modes = (None, "int8", "int4", "float", "int4,embed=float", "int8,dense=int4")
    assert len({open_gguf(path, mode).fingerprint for mode in modes}) == len(modes)


def test_equal_precisions_have_one_fingerprint_however_they_are_spelt(path: Path) -> None:
    spellings = ("int4", "int4,embed=int8", "int8,attention=int4,dense=int4", "int4,kv=int8", Precision.parse("int4"))
    assert len({open_gguf(path, spelling).fingerprint for spelling in spellings}) == 1


def test_rope_settings_outside_the_weights_change_it(tmp_path: Path) -> None:
    write_directory(tmp_path)
    before = open_directory(tmp_path).fingerprint
    write_directory(tmp_path, settings={"rope_theta": 5e5})
    assert open_directory(tmp_path).fingerprint != before


def test_each_file_of_several_counts(tmp_path: Path) -> None:
    write_directory(tmp_path, num_files=2)
    before = open_directory(tmp_path).fingerprint
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        flip_byte(tmp_path / name, -1)
        after = open_directory(tmp_path).fingerprint
        assert after != before
        before = after


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files above no size at all are sampled, 256 bytes at a time."""
    monkeypatch.setattr(module, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(module, "_SAMPLE_BYTES", 256)


@pytest.mark.usefixtures("sampling")
@pytest.mark.parametrize("place", [lambda begin, _end: begin, lambda _begin, end: end - 1], ids=["first", "last"])
def test_a_large_file_is_sampled_at_both_ends_of_every_tensor(path: Path, place: Callable[[int, int], int]) -> None:
    seen = [open_gguf(path).fingerprint]
    spans = [info.span for info in read_gguf(path).tensors.values()]
    for span in spans:
        flip_byte(path, place(*span))
        seen.append(open_gguf(path).fingerprint)
    assert len(set(seen)) == 1 + len(spans)


@pytest.mark.parametrize(("num_tensors", "sample_bytes"), [(0, 1 << 16), (300, 1 << 16), (8192, 8192), (1 << 20, 1024)])
def test_of_many_tensors_less_of_each_is_looked_at(num_tensors: int, sample_bytes: int) -> None:
    assert module._sample_bytes(num_tensors) == sample_bytes


@pytest.mark.usefixtures("sampling")
def test_what_was_sampled_leaves_memory(path: Path) -> None:
    checkpoint = open_gguf(path)
    assert checkpoint.fingerprint
    assert resident_kib(path) == 0


@pytest.mark.usefixtures("sampling")
def test_the_head_of_a_large_file_counts_whole(path: Path) -> None:
    before = open_gguf(path).fingerprint
    flip_byte(path, path.read_bytes().index(b"{{ messages }}") + 3)
    assert open_gguf(path).fingerprint != before
