"""Names in shared memory: one server each, this user's alone, and nothing is left of who was killed."""

import os
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.frontends.shm.lobby import DOOR_RECORD_BYTES, Knock, Lobby, open_directory, open_own
from tests.support.killed import forked


def files(parent: Path) -> set[str]:
    return {path.name for path in parent.rglob("*") if not path.is_dir()}


def directory_of(parent: Path) -> Path:
    return parent / f"tailrace-{os.geteuid()}"


def leave_behind(name: str, parent: Path) -> None:
    """As a process that is killed leaves things behind: nothing of Python's runs at its end."""

    def claim_and_die() -> None:
        lobby = Lobby.claim(name, parent)
        os.close(open_own(lobby.directory, f"{name}.0123.segment", os.O_RDWR | os.O_CREAT))
        os._exit(0)

    process = forked(claim_and_die)
    process.join()
    assert process.exitcode == 0


def test_all_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    with Lobby.claim("a", tmp_path):
        assert directory_of(tmp_path).stat().st_mode & 0o777 == 0o700
        modes = {path.name: path.stat().st_mode & 0o777 for path in directory_of(tmp_path).iterdir()}
    assert modes == {"a.lobby": 0o600, "a.door": 0o600}


def test_nothing_is_left_of_a_lobby_that_was_closed(tmp_path: Path) -> None:
    with Lobby.claim("a", tmp_path) as lobby, Lobby.claim("b", tmp_path):
        os.close(open_own(lobby.directory, "a.0123.up", os.O_RDWR | os.O_CREAT))
        lobby.close()
        lobby.close()
        assert files(tmp_path) == {"b.lobby", "b.door"}


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    with Lobby.claim("a", tmp_path), pytest.raises(SetupError, match=r"another server is called 'a'.*--shm"):
        Lobby.claim("a", tmp_path)
    Lobby.claim("a", tmp_path).close()


@pytest.mark.parametrize("next_name", ["a", "b"])
def test_what_a_server_left_that_was_killed_is_removed_by_the_next(next_name: str, tmp_path: Path) -> None:
    leave_behind("a", tmp_path)
    assert files(tmp_path) == {"a.lobby", "a.door", "a.0123.segment"}
    with Lobby.claim(next_name, tmp_path):
        assert files(tmp_path) == {f"{next_name}.lobby", f"{next_name}.door"}


def test_a_lobby_belongs_to_all_that_inherit_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    lobby = Lobby.claim("a", tmp_path)

    def wait() -> None:
        os.read(reader, 1)

    process = forked(wait)
    for fd in (lobby._lock, lobby.door):  # as when the process that made it is killed
        os.close(fd)
    with pytest.raises(SetupError):
        Lobby.claim("a", tmp_path)
    os.write(writer, b".")
    process.join()
    Lobby.claim("a", tmp_path).close()
    for fd in (reader, writer, lobby.directory):
        os.close(fd)


@pytest.mark.parametrize("name", ["", "a.b", "../a", "a/b", "a" * 65, "ä", "a\n"])
def test_a_name_that_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be the name"):
        Lobby.claim(name, tmp_path)
    assert files(tmp_path) == set()


def test_a_directory_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    directory_of(tmp_path).mkdir(0o755)
    with pytest.raises(SetupError, match="chmod 700"):
        open_directory(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    directory_of(tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError):
        Lobby.claim("a", tmp_path)
    directory_of(tmp_path).unlink()
    directory_of(tmp_path).mkdir(0o700)
    (directory_of(tmp_path) / "a.lobby").symlink_to(tmp_path / "victim")
    with pytest.raises(SetupError, match="cannot claim"):
        Lobby.claim("a", tmp_path)
    assert not (tmp_path / "victim").exists()


def test_a_file_that_others_may_open_is_refused(tmp_path: Path) -> None:
    directory_of(tmp_path).mkdir(0o700)
    lobby = directory_of(tmp_path) / "a.lobby"
    lobby.touch()
    lobby.chmod(0o644)
    with pytest.raises(SetupError, match="open to others"):
        Lobby.claim("a", tmp_path)


def test_a_knock_is_read_as_it_was_written() -> None:
    knock = Knock.of_version(3)
    assert len(knock.encode()) == DOOR_RECORD_BYTES
    assert Knock.decode(knock.encode()) == knock


@pytest.mark.parametrize(
    "record", [b"", b"1 " + b"a" * 32 + b"\n", b"\0" * 64, b"1 ../../etc/passwd".ljust(63) + b"\n"]
)
def test_what_is_no_knock_is_none(record: bytes) -> None:
    assert Knock.decode(record) is None
