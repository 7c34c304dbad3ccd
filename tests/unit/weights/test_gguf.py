"""The GGUF container: everything it holds is read, and nothing it claims is believed."""

import contextlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.weights.gguf import StringArray, read_gguf
from tailrace.weights.gguf_checkpoint import open_gguf
from tests.unit.weights.model_files import TOKENS, gguf_string, write_gguf

U32, STRING, ARRAY = 4, 8, 9


def head(num_tensors: int = 0, num_entries: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_entries)


def entry(key: str, value_type: int, payload: bytes) -> bytes:
    return gguf_string(key) + struct.pack("<I", value_type) + payload


def info(name: str, dims: list[int], type_id: int, offset: int) -> bytes:
    return gguf_string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_id, offset)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def read_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    read_gguf(path)


def test_every_scalar_type_is_read(path: Path) -> None:
    scalars = {"B": 200, "b": -5, "H": 60000, "h": -30000, "I": 1 << 31, "i": -7, "f": 0.5, "?": True}
    entries = [
        entry(code, index, struct.pack("<" + code, value)) for index, (code, value) in enumerate(scalars.items())
    ]
    wide = {"Q": (10, 1 << 40), "q": (11, -(1 << 40)), "d": (12, 0.1)}
    entries += [entry(code, kind, struct.pack("<" + code, value)) for code, (kind, value) in wide.items()]
    path.write_bytes(head(0, len(entries)) + b"".join(entries))
    assert read_gguf(path).metadata == scalars | {code: value for code, (_, value) in wide.items()}


def test_arrays_of_numbers_and_strings_are_read(path: Path) -> None:
    words = ["", "a", "ü" * 200, "end"]
    numbers = entry("n", ARRAY, struct.pack("<IQ3i", 5, 3, -1, 0, 7))
    texts = entry("t", ARRAY, struct.pack("<IQ", STRING, len(words)) + b"".join(map(gguf_string, words)))
    path.write_bytes(head(0, 3) + numbers + texts + entry("s", STRING, gguf_string("last")))
    metadata = read_gguf(path).metadata
    assert metadata["n"].tolist() == [-1, 0, 7]
    assert list(metadata["t"]) == words
    assert metadata["s"] == "last"


def test_a_string_array_is_a_sequence() -> None:
    words = ["zero", "", "two", "drei"]
    pieces = [gguf_string(word) for word in words]
    array = StringArray(b"".join(pieces), np.cumsum([len(piece) for piece in pieces]))
    assert len(array) == 4
    assert [array[0], array[1], array[-1]] == ["zero", "", "drei"]
    assert array[1:3] == ["", "two"]
    with pytest.raises(IndexError):
        array[4]


def test_bytes_that_are_no_utf8_do_not_stop_a_vocabulary(path: Path) -> None:
    texts = struct.pack("<IQ", STRING, 1) + struct.pack("<Q", 2) + b"\xff\xfe"
    path.write_bytes(head(0, 1) + entry("t", ARRAY, texts))
    assert list(read_gguf(path).metadata["t"]) == ["\ufffd\ufffd"]


def test_a_matrix_has_its_rows_first(path: Path) -> None:
    path.write_bytes((head(1) + info("m", [8, 3], 0, 0)).ljust(96, b"\0") + bytes(96))
    tensor = read_gguf(path).tensors["m"]
    assert (tensor.shape, tensor.type.name, tensor.span) == ((3, 8), "F32", (96, 192))


def test_data_begins_where_the_files_own_alignment_says(path: Path) -> None:
    content = head(1, 1) + entry("general.alignment", U32, struct.pack("<I", 256)) + info("v", [4], 0, 0)
    path.write_bytes(content.ljust(256, b"\0") + bytes(16))
    assert read_gguf(path).tensors["v"].begin == 256


@pytest.mark.parametrize("content", [b"GGML" + bytes(40), b"PK\3\4" + bytes(40), bytes(64)])
def test_another_kind_of_file_is_refused(path: Path, content: bytes) -> None:
    with pytest.raises(CheckpointError, match="not a GGUF file"):
        read_bytes(path, content)


@pytest.mark.parametrize("version", [0, 1, 4, 0x03000000])
def test_other_versions_and_big_endian_files_are_refused(path: Path, version: int) -> None:
    with pytest.raises(UnsupportedModel, match=r"model\.gguf: GGUF version"):
        read_bytes(path, head(version=version))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (head(1 << 40, 0), "claims tensors: 1099511627776"),
        (head(0, 1 << 60), "claims metadata entries"),
        (head(0, 1) + struct.pack("<Q", 1 << 50), "claims a string of bytes"),
        (head(0, 1) + entry("a", ARRAY, struct.pack("<IQ", U32, 1 << 62)), "'a' claims elements"),
        (head(0, 1) + entry("a", ARRAY, struct.pack("<IQ", U32, 1 << 20)), "the file ends at byte .* inside .*'a'"),
        (head(0, 1) + entry("a", ARRAY, struct.pack("<IQ", STRING, 1 << 20)), "the file ends at byte .* inside .*'a'"),
        (head(0, 1) + entry("a", ARRAY, struct.pack("<IQQ", STRING, 2, 1 << 63)), "the file ends .* inside .*'a'"),
        (head(0, 1) + entry("a", ARRAY, struct.pack("<IQ", ARRAY, 1)), "value type 9"),
        (head(0, 1) + entry("a", 77, bytes(8)), "value type 77"),
        (head(0, 2) + 2 * entry("a", U32, bytes(4)), "'a' is there twice"),
        (head(1) + gguf_string("t") + struct.pack("<I", 9), "the info of tensor 't' claims dimensions: 9"),
        (head(1) + gguf_string("t") + struct.pack("<IIQ", 0, 0, 0), "'t' of type F32 cannot have shape"),
        (head(1) + info("t", [4, 0], 0, 0), "'t' of type F32 cannot have shape"),
        (head(1) + info("t", [33, 1], 2, 0), "'t' of type Q4_0 cannot have shape"),
        (head(0, 1) + entry("general.alignment", U32, struct.pack("<I", 24)), "general.alignment 24"),
        (head(0, 1) + entry("general.alignment", U32, bytes(4)), "general.alignment 0"),
        (head(0, 1) + entry("general.alignment", STRING, gguf_string("x")), "general.alignment 'x'"),
    ],
)
def test_a_header_that_cannot_be_true_is_refused(path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        read_bytes(path, content)


@pytest.mark.parametrize(
    ("infos", "reason"),
    [
        ([info("a", [1 << 62, 4], 0, 0)], "the file ends at byte .*, tensor 'a'.*truncated; fetch it again"),
        ([info("a", [8], 0, 1 << 62)], "the file ends at byte .*, tensor 'a'"),
        ([info("a", [8], 0, 7)], "'a' is not aligned to 32"),
        ([info("a", [16], 0, 0), info("b", [8], 0, 32)], "'a' and 'b' overlap"),
        ([info("a", [8], 0, 0), info("a", [8], 0, 32)], "two tensors have the same name"),
    ],
)
def test_a_tensor_outside_its_place_is_refused(path: Path, infos: list[bytes], reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        read_bytes(path, (head(len(infos)) + b"".join(infos)).ljust(256, b"\0"))


def test_a_block_type_of_the_future_is_named(path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="tensor 'a' has block type 99"):
        read_bytes(path, head(1) + info("a", [32], 99, 0))


def test_a_real_file_cut_anywhere_is_refused(path: Path) -> None:
    write_gguf(path)
    whole = path.read_bytes()
    for length in [*range(1, 4096, 37), len(whole) // 2, len(whole) - 1]:
        with pytest.raises(CheckpointError, match=r"model\.gguf"):
            read_bytes(path, whole[:length])


@pytest.mark.parametrize(("make", "reason"), [("touch", "empty"), ("mkdir", "not a file"), ("exists", "no such file")])
def test_what_is_no_file_is_refused(path: Path, make: str, reason: str) -> None:
    getattr(path, make)()
    with pytest.raises(CheckpointError, match=reason):
        read_gguf(path)


def test_the_vocabulary_is_read_as_written(path: Path) -> None:
    write_gguf(path)
    assert list(read_gguf(path).metadata["tokenizer.ggml.tokens"]) == TOKENS


@pytest.fixture(scope="module")
def valid_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "model.gguf"
    write_gguf(path)
    return path


@given(data=st.data())
@settings(max_examples=200)
def test_damage_ends_in_an_error_of_ours_or_in_a_model(valid_file: Path, data: st.DataObject) -> None:
    content = bytearray(valid_file.read_bytes())
    head_bytes = 3500  # all of the metadata and tensor infos
    places = st.lists(st.tuples(st.integers(0, head_bytes), st.integers(0, 255)), min_size=1, max_size=6)
    for place, value in data.draw(places):
        content[place] = value
    damaged = valid_file.with_name("damaged.gguf")
    damaged.write_bytes(content)
    with contextlib.suppress(ModelError):
        checkpoint = open_gguf(damaged)
        for name in checkpoint.tensors:
            assert checkpoint.tensors[name].dequantize().size
