"""The comparison of HTTP servers runs, with the server that the tests have."""

import json
import sys

import pytest

from benchmarks.http.servers import main


def test_it_reports_each_server(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--python", sys.executable, "--servers", "uvicorn", "--streams", "2", "--chunks", "3", "--rounds", "1"]
    main([*options, "--json"])
    (figures,) = json.loads(capsys.readouterr().out)["servers"]
    assert (figures["server"], figures["cpu_ratio"] if figures["cpu_us_per_chunk"] else 1) == ("uvicorn", 1)
    assert figures["latency_p50_us"] > 0
