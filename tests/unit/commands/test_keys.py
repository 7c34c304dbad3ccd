from pathlib import Path

import pytest

from tailrace.commands.keys import read_admin_key, read_api_key
from tailrace.errors import SetupError

KEY = "0123456789abcdef"


def test_without_file_or_variable_there_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAILRACE_ADMIN_KEY", raising=False)
    assert read_admin_key(None) is None


def test_a_file_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAILRACE_ADMIN_KEY", KEY)
    file = tmp_path / "key"
    file.write_text(KEY[::-1] + "\n")
    assert read_admin_key(None) == KEY
    assert read_admin_key(file) == KEY[::-1]


@pytest.mark.parametrize("given", ["", "short", "a key with some spaces in it", "x" * 600, "0123456789abcde\x07"])
def test_unfit_keys_are_refused_without_being_shown(tmp_path: Path, given: str) -> None:
    file = tmp_path / "file"
    file.write_text(given)
    with pytest.raises(SetupError, match="openssl") as refusal:
        read_admin_key(file)
    assert not given or given not in str(refusal.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff" * 20)
    for file in (tmp_path / "missing", tmp_path / "binary", tmp_path):
        with pytest.raises(SetupError, match="--admin-key-file"):
            read_admin_key(file)


def test_the_key_of_clients_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAILRACE_API_KEY", raising=False)
    assert read_api_key() is None
    monkeypatch.setenv("TAILRACE_API_KEY", KEY)
    assert read_api_key() == KEY
    monkeypatch.setenv("TAILRACE_API_KEY", "")
    with pytest.raises(SetupError, match="the API key in TAILRACE_API_KEY must be 16 to 512"):
        read_api_key()
