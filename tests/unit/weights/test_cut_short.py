"""A file that is cut while it is mapped: whoever looks ends with a line that names it, however it looks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tailrace.weights.mapped import map_file

HEAD = """
import hashlib, os, sys, threading
import numpy as np
from pathlib import Path
from tailrace.weights.mapped import map_file
path = Path(sys.argv[1])
mapped = map_file(path)
values = mapped.array(np.uint8, mapped.size, 0)
"""
CUT = "os.truncate(path, 4096)\n"
BUSY = "threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(int, 1)], daemon=True).start()\n"
LOOKS = {
    "a slice": "mapped.mapping[8192:8200]",
    "an array": "values[8192:].sum()",
    "an array in a thread": "t = threading.Thread(target=values.astype, args=[float]); t.start(); t.join()",
    "an array in many threads": """
threads = [threading.Thread(target=values.astype, args=[float]) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]""",
    "a hash": "hashlib.sha256(mapped.mapping)",
}


def run(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    path.write_bytes(bytes(1 << 20))
    command = [sys.executable, "-c", HEAD + code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("meanwhile", ["", BUSY], ids=["alone", "beside a busy thread"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_what_was_cut_off_ends_with_the_name_of_the_file(tmp_path: Path, look: str, meanwhile: str) -> None:
    ended = run(tmp_path / "model.gguf", meanwhile + CUT + LOOKS[look])
    assert ended.returncode == 1
    said = f"tailrace: {tmp_path}/model.gguf: the file became shorter while it was read; fetch it again, and "
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("\n") == 1


def test_a_fault_that_is_none_of_ours_ends_as_it_would_have(tmp_path: Path) -> None:
    other = """
import mmap
file = open(sys.argv[1] + ".other", "w+b"); file.truncate(8192)
theirs = mmap.mmap(file.fileno(), 0); file.truncate(0)
theirs[0]
"""
    ended = run(tmp_path / "model.gguf", other)
    assert ended.returncode == -7
    assert "tailrace" not in ended.stderr


def test_of_a_mapping_that_is_gone_nothing_is_said(tmp_path: Path) -> None:
    code = """
from tailrace.weights.cut_short import _MAPPINGS
del values, mapped
assert not _MAPPINGS._places
"""
    ended = run(tmp_path / "model.gguf", code)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_another_file_in_the_place_of_a_mapped_one_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(range(200)))
    mapped = map_file(path)
    (tmp_path / "other").write_bytes(b"short")
    (tmp_path / "other").replace(path)
    assert mapped.array(np.uint8, 200, 0).tolist() == list(range(200))
    mapped.check_unchanged()
