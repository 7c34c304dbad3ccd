from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.quantizing.output_place import refuse_too_large, taking_shape


def test_the_output_is_there_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.gguf"
    with taking_shape(path, may_replace=False, source=tmp_path / "in.gguf") as part:
        part.write_text("whole")
        assert not path.exists()

    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with taking_shape(tmp_path / "out", may_replace=False, source=tmp_path / "in") as part:
            part.mkdir()
            (part / "config.json").write_text("{}")
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


def write(path: Path, *, may_replace: bool, source: Path) -> None:
    with taking_shape(path, may_replace=may_replace, source=source) as part:
        part.mkdir()
        (part / "config.json").write_text("new")


def test_a_directory_of_a_model_is_replaced_when_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    (path / "config.json").write_text("old")
    (path / "left").write_text("old")

    with pytest.raises(SetupError, match=r"is there already.*--force"):
        write(path, may_replace=False, source=tmp_path / "in")
    assert (path / "config.json").read_text() == "old"

    write(path, may_replace=True, source=tmp_path / "in")
    assert [file.name for file in path.iterdir()] == ["config.json"]
    assert (path / "config.json").read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_that_holds_no_model_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "home"
    path.mkdir()
    (path / "letters").write_text("dear")

    with pytest.raises(SetupError, match="holds no model"):
        write(path, may_replace=True, source=tmp_path / "in")
    assert (path / "letters").read_text() == "dear"


@pytest.mark.parametrize("output", ["model", "model/inside", "."])
def test_the_model_itself_is_never_written_over(tmp_path: Path, output: str) -> None:
    source = tmp_path / "model"
    source.mkdir()
    (source / "config.json").write_text("{}")

    with pytest.raises(SetupError, match="would lie over the model"):
        write(tmp_path / output, may_replace=True, source=source)
    assert (source / "config.json").read_text() == "{}"


def test_a_directory_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="there is no directory"):
        write(tmp_path / "none" / "out", may_replace=False, source=tmp_path / "in")


def test_what_the_disk_has_no_room_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="GB of the disk are free"):
        refuse_too_large(tmp_path / "out", 1 << 60)
