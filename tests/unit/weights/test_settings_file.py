"""Settings files: whole, or refused by name."""

import os
from pathlib import Path

import pytest

from tailrace.errors import CheckpointError
from tailrace.weights.settings_file import is_there, read_settings_file


def test_a_file_is_read_up_to_the_last_byte_it_may_have(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"12345")
    assert read_settings_file(path, 5) == b"12345"
    with pytest.raises(CheckpointError, match=r"settings\.json: more than 4 bytes"):
        read_settings_file(path, 4)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="pipe: not a file"):
        read_settings_file(tmp_path / "pipe", 100)


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    path.touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CheckpointError, match=r"settings\.json: cannot be read: Permission denied"):
        read_settings_file(path, 100)


def test_a_link_to_what_is_gone_is_there(tmp_path: Path) -> None:
    link = tmp_path / "link"
    assert not is_there(link)
    link.symlink_to(tmp_path / "gone")
    assert is_there(link)
    with pytest.raises(CheckpointError, match="link: cannot be read: No such file"):
        read_settings_file(link, 100)
