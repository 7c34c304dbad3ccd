"""Model files that are something else, lie, or were cut: one clear error, in little memory and time, and no crash."""

import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.gguf import read_gguf
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.safetensors import read_safetensors
from tests.support.opening import Opened, open_all
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek_gguf
from tests.unit.weights.model_files import TINY, GgmlType, gguf_string, write_directory
from tests.unit.weights.tokenizer_files import GGUF_VOCABULARY, write_tokenizer

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX, TOKENIZER, CONFIG = "model.safetensors.index.json", "tokenizer.json", "config.json"
OPTIONAL = ("tokenizer_config.json", "generation_config.json", "chat_template.jinja")
GGUF = "model.gguf"
Damage = Callable[[Path], None]  # is given a model directory, or the directory of a GGUF file


def replaced(name: str, make: Callable[[Path], object]) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        make(directory / name)

    return damage


def content(text: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(text.encode() if isinstance(text, str) else text)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def changed(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(directory: Path) -> None:
        table = json.loads((directory / name).read_text())
        change(table)
        (directory / name).write_text(json.dumps(table))

    return damage


def head_changed(change: Callable[[dict[str, Any]], object], name: str = SECOND) -> Damage:
    """Another head before the same data."""

    def damage(directory: Path) -> None:
        raw = (directory / name).read_bytes()
        end = 8 + struct.unpack("<Q", raw[:8])[0]
        table = json.loads(raw[8:end])
        change(table)
        head = json.dumps(table).encode()
        (directory / name).write_bytes(struct.pack("<Q", len(head)) + head + raw[end:])

    return damage


def first_entry(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda table: table[min(table.keys() - {"__metadata__"})].update(fields)


def overlap(table: dict[str, Any]) -> None:
    first, second, *_ = (entry for name, entry in table.items() if name != "__metadata__")
    first["data_offsets"] = second["data_offsets"]


def twice(directory: Path) -> None:
    raw = (directory / SECOND).read_bytes()
    end = 8 + struct.unpack("<Q", raw[:8])[0]
    entries = {name: entry for name, entry in json.loads(raw[8:end]).items() if name != "__metadata__"}
    again = json.dumps({min(entries): entries[min(entries)]})
    head = f"{raw[8:end].decode().strip()[:-1]}, {again[1:]}".encode()
    (directory / SECOND).write_bytes(struct.pack("<Q", len(head)) + head + raw[end:])


def large_head(unit: bytes) -> Callable[[Path], object]:
    """A hundred megabytes, as many as the format allows."""

    def make(path: Path) -> None:
        count = 99_000_000 // len(unit)
        head = b'{"a":' + unit * count + b"0}"
        path.write_bytes(struct.pack("<Q", len(head)) + head)

    return make


def swap(directory: Path) -> None:
    (directory / FIRST).rename(directory / "x")
    (directory / SECOND).rename(directory / FIRST)
    (directory / "x").rename(directory / SECOND)


def other_model(directory: Path) -> None:
    write_directory(directory / "other", replace(TINY, intermediate_size=64), num_files=2)
    shutil.copy(directory / "other" / SECOND, directory / SECOND)


def cut(name: str, num_bytes: int) -> Damage:
    return lambda directory: os.truncate(directory / name, (directory / name).stat().st_size - num_bytes)


def outside(path: Path) -> None:
    shutil.copy(path.parent / SECOND, path.parent.parent / "outside.safetensors")
    table = {"weight_map": {"a": "../outside.safetensors"}}
    path.write_text(json.dumps(table))


DEEP = 3_000_000
SPECIAL: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "a directory": (Path.mkdir, "not a file|Is a directory"),
    "a pipe": (os.mkfifo, "not a file"),
    "a link to itself": (loop, "no such file|symbolic links"),
    "a link to nothing": (lambda path: path.symlink_to("/nowhere/at/all"), "[Nn]o such file"),
    "without end": (lambda path: path.symlink_to("/dev/zero"), "not a file"),
    "empty": (Path.touch, "empty|damaged|truncated"),
    "zeros": (content(bytes(1000)), "damaged|head"),
    "sparse": (sparse, "damaged|too much|head"),
    "deep lists": (content("[" * DEEP), "damaged|not a safetensors file"),
    "deep tables": (content('{"a":' * DEEP), "damaged|not a safetensors file"),
    "UTF-16": (content('{"a": 1}'.encode("utf-16")), "damaged|cannot be read|not a safetensors file"),
    "another type": (content("[1, 2]"), "damaged|not a safetensors file"),
}
NO_TEXT = ("empty", "zeros", "deep lists", "deep tables", "another type")  # which are templates, if strange ones

DIRECTORY: dict[str, tuple[Damage, str]] = {
    **{
        f"{name}: {what}": (replaced(name, make), rf"{name}: .*({reason})|{name} is no model directory: it has no con")
        for name in (SECOND, INDEX, TOKENIZER, CONFIG, *OPTIONAL)
        for what, (make, reason) in SPECIAL.items()
        if not (name.endswith("jinja") and what in NO_TEXT)
        and not (name == CONFIG and what not in NO_TEXT)  # which is no directory of a model, then
    },
    "a shard is missing": (lambda directory: (directory / FIRST).unlink(), f"{FIRST}: no such file"),
    "shards are swapped": (swap, rf"{FIRST}: tensor '.*' is missing, which {INDEX} places here"),
    "a shard of another model": (other_model, rf"{SECOND}: tensor '.*' has shape \[.*\], the config asks for \["),
    "a shard is cut by a byte": (cut(SECOND, 1), rf"{SECOND}: the file ends at .* truncated; fetch it again"),
    "a shard is cut in its head": (cut(SECOND, 1 << 14), SECOND),
    "an index that leads out": (replaced(INDEX, outside), rf"{INDEX}: '\.\./outside.* beside it"),
    "an index with numbers": (replaced(INDEX, content('{"weight_map": {"a": 1}}')), rf"{INDEX}: 1 is not the name"),
    "an index with a name of 5000 letters": (
        replaced(INDEX, content(json.dumps({"weight_map": {"a": "x" * 5000 + ".safetensors"}}))),
        rf"{INDEX}: 'xxx.* is not the name",
    ),
    "an index of nothing": (replaced(INDEX, content('{"weight_map": {}}')), r"tensor '.*' is missing"),
    "an index that knows no tensor": (replaced(INDEX, content("{}")), r"tensor '.*' is missing"),
    "a shape beyond 64 bits": (head_changed(first_entry(shape=[1 << 63, 1 << 63])), SECOND),
    "a shape of nothing": (head_changed(first_entry(shape=[0, 5])), rf"{SECOND}: tensor '.*' has shape \[0, 5\]"),
    "a negative shape": (head_changed(first_entry(shape=[-4, 5])), rf"{SECOND}: damaged.* cannot have offsets"),
    "an offset beyond 64 bits": (head_changed(first_entry(data_offsets=[0, 1 << 64])), SECOND),
    "an offset of the last byte there is": (
        head_changed(first_entry(data_offsets=[(1 << 64) - 1, (1 << 64) - 1])),
        SECOND,
    ),
    "offsets that go back": (head_changed(first_entry(data_offsets=[64, 0])), rf"{SECOND}: damaged"),
    "a negative offset": (head_changed(first_entry(data_offsets=[-64, 0])), rf"{SECOND}: damaged"),
    "overlapping tensors": (head_changed(overlap), rf"{SECOND}: damaged.* overlap"),
    "a tensor that is there twice": (twice, rf"{SECOND}: damaged.* twice"),
    "a tensor of text": (head_changed(first_entry(dtype="TEXT")), rf"{SECOND}: tensor .* has dtype TEXT; supported"),
    "a tensor of 64 bits": (head_changed(first_entry(dtype="F64")), rf"{SECOND}: tensor .* has dtype F64; supported"),
    "another size of number": (head_changed(first_entry(dtype="F16")), rf"{SECOND}: tensor .* bytes, its shape needs"),
    "many short entries": (replaced(SECOND, large_head(b'0,"b":')), rf"{SECOND}: damaged.* more entries"),
    "one long list": (replaced(SECOND, large_head(b"[")), rf"{SECOND}: damaged"),
    "one long number": (replaced(SECOND, large_head(b"9")), rf"{SECOND}: damaged"),
    "one long name": (replaced(SECOND, content(struct.pack("<Q", 9_000_000) + b'{"' + b"x" * 8_999_998)), SECOND),
    "a head of nearly all": (replaced(SECOND, content(struct.pack("<Q", 100_000_000) + b"{}")), f"{SECOND}: damaged"),
    "a vocabulary of billions": (
        replaced(TOKENIZER, partial(write_tokenizer, first_id=(1 << 32) - 64)),
        rf"{TOKENIZER}: token id 4294967\d+; at most",
    ),
    "a tokenizer without its model": (replaced(TOKENIZER, content("{}")), f"{TOKENIZER}: not a readable tokenizer"),
    "settings without end": (
        changed(CONFIG, lambda table: table.update(hidden_size=int("9" * 18))),
        f"{CONFIG}: hidden",
    ),
    "settings too deep": (
        changed(CONFIG, lambda table: table.update(rope_scaling=[[[[]]]])),
        f"{CONFIG}: rope_scaling",
    ),
}


def gguf_changed(place: Callable[[bytes], int], new: bytes) -> Damage:
    def damage(directory: Path) -> None:
        raw = bytearray((directory / GGUF).read_bytes())
        begin = place(bytes(raw))
        raw[begin : begin + len(new)] = new
        (directory / GGUF).write_bytes(raw)

    return damage


def at(number: int) -> Callable[[bytes], int]:
    return lambda raw: number


def behind(name: str, skip: int = 0) -> Callable[[bytes], int]:
    """Where what follows a name begins."""
    return lambda raw: raw.index(gguf_string(name)) + 8 + len(name) + skip


def zeros_after(head: bytes) -> Damage:
    """A sparse file: there are terabytes of zeros, which are as many empty strings, names and numbers."""

    def damage(directory: Path) -> None:
        with (directory / GGUF).open("wb") as file:
            file.write(head)
            file.truncate(1 << 40)

    return damage


def arrays_without_end(directory: Path) -> None:
    """Nine arrays of 32 MiB each."""
    with (directory / GGUF).open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 1, 9))
        for name in "abcdefghi":
            file.write(gguf_string(name) + struct.pack("<IIQ", 9, 12, 1 << 22))
            file.seek(1 << 25, os.SEEK_CUR)
        file.truncate()


TENSOR = "blk.1.ffn_down_exps.weight"
MANY = struct.pack("<Q", (1 << 64) - 1)
INFOS, ENTRIES = at(8), at(16)
DIMS = 4  # after the name: their number, then each, then type and offset
GGUF_DAMAGE: dict[str, tuple[Damage, str]] = {
    **{what: (replaced(GGUF, make), "") for what, (make, _) in SPECIAL.items() if "link to" not in what},
    "tensors beyond 64 bits": (gguf_changed(INFOS, MANY), "claims tensors"),
    "entries beyond 64 bits": (gguf_changed(ENTRIES, MANY), "claims metadata entries"),
    "no tensors": (gguf_changed(INFOS, bytes(8)), "is missing"),
    "no entries": (gguf_changed(ENTRIES, bytes(8)), "tensor info|general.architecture"),
    "a dimension beyond 64 bits": (gguf_changed(behind(TENSOR, DIMS), MANY), f"'{TENSOR}'"),
    "dimensions whose product is beyond 64 bits": (
        gguf_changed(behind(TENSOR, DIMS), 3 * struct.pack("<Q", 1 << 63)),
        f"'{TENSOR}'",
    ),
    "a dimension of nothing": (gguf_changed(behind(TENSOR, DIMS), bytes(8)), f"'{TENSOR}' of type F32 cannot have"),
    "no dimensions": (gguf_changed(behind(TENSOR), bytes(4)), f"'{TENSOR}'"),
    "an unknown type": (gguf_changed(behind(TENSOR, DIMS + 24), b"\xff\0\0\0"), f"'{TENSOR}' has block type 255"),
    "a type of integers": (gguf_changed(behind(TENSOR, DIMS + 24), b"\x1a\0\0\0"), f"'{TENSOR}' has type I32"),
    "an offset beyond 64 bits": (gguf_changed(behind(TENSOR, DIMS + 28), MANY), f"'{TENSOR}' is not aligned"),
    "the last offset there is": (
        gguf_changed(behind(TENSOR, DIMS + 28), struct.pack("<Q", (1 << 64) - 32)),
        f"the file ends at byte .*'{TENSOR}' at .*truncated",
    ),
    "another's offset": (gguf_changed(behind(TENSOR, DIMS + 28), bytes(8)), "overlap"),
    "a name that is there already": (
        gguf_changed(behind(TENSOR, -len(TENSOR)), TENSOR.replace("blk.1", "blk.2").encode()),
        "two tensors have the same name",
    ),
    "merges of other tokens": (gguf_changed(lambda raw: raw.index(gguf_string("ab")) + 8, b"ac"), "merges do not fit"),
    "a string beyond 64 bits": (gguf_changed(at(24), MANY), "claims a string of bytes"),
    "empty strings without end": (
        zeros_after(b"GGUF" + struct.pack("<IQQ", 3, 1 << 17, 1 << 16)),
        "metadata entry '' is there twice",
    ),
    "arrays of strings without end": (
        zeros_after(b"GGUF" + struct.pack("<IQQ", 3, 1, 9) + gguf_string("a") + struct.pack("<IIQ", 9, 8, 1 << 22)),
        "metadata entry '' is there twice",
    ),
    "an array of strings with more than allowed": (
        zeros_after(b"GGUF" + struct.pack("<IQQ", 3, 1, 9) + gguf_string("a") + struct.pack("<IIQ", 9, 8, 1 << 40)),
        "'a' claims elements",
    ),
    "a head that does not end": (arrays_without_end, "'h' ends at byte .* before the data"),
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Opened]:
    """How each damaged model, and the sound ones they were made of, were opened: in one process."""
    base = tmp_path_factory.mktemp("hostile")
    write_directory(base / "sound", num_files=2)
    write_tokenizer(base / "sound" / TOKENIZER)
    (base / "sound-gguf").mkdir()
    write_deepseek_gguf(base / "sound-gguf" / GGUF, DEEPSEEK["V3"], metadata=GGUF_VOCABULARY)
    paths = {"sound": base / "sound", "sound GGUF": base / "sound-gguf" / GGUF}
    for number, (what, (damage, _)) in enumerate(
        (DIRECTORY | {f"GGUF {k}": v for k, v in GGUF_DAMAGE.items()}).items()
    ):
        is_gguf = what.startswith("GGUF ")
        copy = base / str(number)
        shutil.copytree(base / ("sound-gguf" if is_gguf else "sound"), copy)
        damage(copy)
        paths[what] = copy / GGUF if is_gguf else copy
    return dict(zip(paths, open_all(list(paths.values())), strict=True))


@pytest.mark.parametrize("what", ["sound", "sound GGUF"])
def test_what_the_damaged_ones_are_made_of_opens(opened: Mapping[str, Opened], what: str) -> None:
    assert opened[what].kind is None, opened[what].message


@pytest.mark.parametrize("what", DIRECTORY)
def test_a_damaged_directory_is_refused_in_one_line(opened: Mapping[str, Opened], what: str) -> None:
    check(opened[what], DIRECTORY[what][1])


@pytest.mark.parametrize("what", GGUF_DAMAGE)
def test_a_damaged_gguf_file_is_refused_in_one_line(opened: Mapping[str, Opened], what: str) -> None:
    check(opened[f"GGUF {what}"], rf"model\.gguf.*{GGUF_DAMAGE[what][1]}")


def around(places: Iterable[int], size: int) -> list[int]:
    """Where something begins or ends, and a byte before and behind."""
    return sorted({place + by for place in places for by in (-1, 0, 1)} & set(range(size)))


def test_a_gguf_file_cut_where_anything_begins_or_ends_is_refused(tmp_path: Path) -> None:
    path = tmp_path / GGUF
    write_deepseek_gguf(path, DEEPSEEK["V3"], kinds={"experts.up": GgmlType.Q4_1, "embed": GgmlType.Q8_0})
    whole, found = path.read_bytes(), read_gguf(path)
    heads = [whole.index(gguf_string(name)) + by for name in (*found.metadata, *found.tensors) for by in (0, 8)]
    ends = [8 + len(name) + whole.index(gguf_string(name)) for name in (*found.metadata, *found.tensors)]
    spans = [place for tensor in found.tensors.values() for place in tensor.span]
    for size in around([0, 4, 8, 16, 24, *heads, *ends, *spans], len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"model\.gguf: .*(the file ends at byte|empty|not a GGUF)"):
            open_gguf(path)


def test_a_shard_cut_where_anything_begins_or_ends_is_refused(tmp_path: Path) -> None:
    write_directory(tmp_path, num_files=2)
    path = tmp_path / SECOND
    whole, tensors = path.read_bytes(), read_safetensors(path)
    heads = [whole.index(name.encode()) + by for name in tensors for by in (0, len(name))]
    spans = [place for tensor in tensors.values() for place in (tensor.begin, tensor.end)]
    for size in around([0, 8, *heads, *spans], len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=rf"{SECOND}: .*(the file ends at byte|empty|a head of)"):
            open_directory(tmp_path)


def check(how: Opened, reason: str) -> None:
    assert how.kind in ("CheckpointError", "UnsupportedModel", "SetupError"), how
    assert re.search(reason, how.message), how.message
    assert "\n" not in how.message
    assert len(how.message) < 600, how.message
