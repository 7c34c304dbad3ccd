import json
from pathlib import Path

import pytest

from tailrace.cli import main
from tailrace.levels.host import HostLevel
from tailrace.levels.layout import Layout
from tests.support.blocks import chain, stored

LAYOUT = Layout(1000, 8)


@pytest.fixture
def level(tmp_path: Path) -> HostLevel:
    level = HostLevel(1000, LAYOUT.file_bytes, directory=tmp_path)
    level.put(stored(chain("a", 3), 1000), level.log.version())
    return level


def test_segments_are_listed(level: HostLevel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list", "--directory", str(tmp_path), "--json"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert (report["blocks"], report["users"], report["block_bytes"]) == (3, 1, 1000)
    assert report["max_bytes"] == LAYOUT.file_bytes
    level.close()
    assert main(["cache", "list", "--directory", str(tmp_path)]) == 0
    assert "a block" in capsys.readouterr().out


def test_a_segment_in_use_is_not_removed_and_the_reason_is_said(
    level: HostLevel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "clear", "--directory", str(tmp_path)]) == 1
    assert "in use" in capsys.readouterr().err
    level.close()
    assert main(["cache", "clear", "--directory", str(tmp_path)]) == 0
    assert "Removed" in capsys.readouterr().out
    assert main(["cache", "list", "--directory", str(tmp_path)]) == 0
    assert "No KV blocks" in capsys.readouterr().out


def test_a_file_of_another_version_is_listed_and_removed(
    level: HostLevel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(b"of another version")
    assert main(["cache", "list", "--directory", str(tmp_path)]) == 0
    assert "?" in capsys.readouterr().out
    assert main(["cache", "clear", "--directory", str(tmp_path)]) == 0
    assert not path.exists()
