import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.frontends.watched_file import WatchedFile, watching

SOON_S = 0.005


def read(path: Path) -> str:
    try:
        content = path.read_text()
    except OSError:
        raise SetupError(f"cannot read {path}") from None
    if "bad" in content:
        raise SetupError(f"{path}, line 1: it is bad")
    return content


class Taken:
    """What was handed over; waits for the next."""

    def __init__(self) -> None:
        self._contents: asyncio.Queue[str] = asyncio.Queue()
        self.take = self._contents.put_nowait

    async def next(self) -> str:
        return await asyncio.wait_for(self._contents.get(), 10)

    @property
    def is_all(self) -> bool:
        return self._contents.empty()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("first")
    return path


def put(path: Path, content: str) -> None:
    """As careful operators do: nobody sees half of it."""
    path.with_suffix(".new").write_text(content)
    path.with_suffix(".new").rename(path)


async def test_a_file_is_read_again_when_it_has_changed_and_not_before(path: Path) -> None:
    taken = Taken()
    file = WatchedFile(path, read, taken.take)
    await file.reread()
    assert await taken.next() == "first"
    seen = [file.has_changed]
    put(path, "again")
    seen.append(file.has_changed)
    await file.reread()
    assert await taken.next() == "again"
    assert [*seen, file.has_changed] == [False, True, False]


async def test_changes_are_seen_in_place_by_renaming_and_behind_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    taken = Taken()
    async with watching([WatchedFile(link, read, taken.take)], SOON_S):
        assert await taken.next() == "first"
        put(path, "renamed")
        assert await taken.next() == "renamed"
        path.write_text("written over")
        while (content := await taken.next()) != "written over":
            assert content == ""  # cut, and not yet written: seen if the watcher looked just then
        other = tmp_path / "other"
        other.write_text("elsewhere")
        (tmp_path / "new-link").symlink_to(other)
        (tmp_path / "new-link").rename(link)
        assert await taken.next() == "elsewhere"


async def test_a_broken_file_changes_nothing_and_is_said_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    taken = Taken()
    async with watching([WatchedFile(path, read, taken.take)], SOON_S):
        assert await taken.next() == "first"
        put(path, "bad")
        while "line 1: it is bad" not in caplog.text:
            await asyncio.sleep(SOON_S)
        path.unlink()
        while "cannot read" not in caplog.text:
            await asyncio.sleep(SOON_S)
        assert taken.is_all
        put(path, "good")
        assert await taken.next() == "good"
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2
    assert all(error.startswith("what was read before still holds: ") for error in errors)
    assert [error.count(str(path)) for error in errors] == [1, 1], "the file is named once"


async def test_sighup_reads_all_of_them_unchanged_ones_too(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("second")
    taken = Taken()
    async with watching([WatchedFile(path, read, taken.take), WatchedFile(other, read, taken.take)], poll_s=60):
        assert await taken.next() == "first"
        assert await taken.next() == "second"
        os.kill(os.getpid(), signal.SIGHUP)
        assert await taken.next() == "first"
        assert await taken.next() == "second"
        os.kill(os.getpid(), signal.SIGHUP)
        assert await taken.next() == "first"


@contextmanager
def hangups_counted() -> Iterator[list[int]]:
    seen: list[int] = []
    previous = signal.signal(signal.SIGHUP, lambda number, frame: seen.append(number))
    try:
        yield seen
    finally:
        signal.signal(signal.SIGHUP, previous)


async def test_without_files_signals_stay_as_they_are() -> None:
    with hangups_counted() as seen:
        async with watching([]):
            os.kill(os.getpid(), signal.SIGHUP)
        assert seen == [signal.SIGHUP]


async def test_off_the_main_thread_changes_are_seen_all_the_same(path: Path) -> None:
    async def serve() -> str:
        taken = Taken()
        async with watching([WatchedFile(path, read, taken.take)], SOON_S):
            before = await taken.next()
            put(path, "again")
            return before + await taken.next()

    assert await asyncio.to_thread(asyncio.run, serve()) == "firstagain"
