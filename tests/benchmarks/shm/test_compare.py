import json

import pytest

from benchmarks.shm import compare


def test_it_runs_and_measures_all_that_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    compare.main(["--streams", "2", "--tokens", "20", "--interval-ms", "1", "--trips", "3", "--rounds", "1", "--json"])
    results = json.loads(capsys.readouterr().out)["results"]
    assert [each.pop("client") for each in results] == ["sse", "shm", "shm, blocking"]
    assert all(value > 0 for each in results for value in each.values())
