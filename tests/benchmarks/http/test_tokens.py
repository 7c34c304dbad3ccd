import json

import pytest

from benchmarks.http.tokens import main


def test_it_measures_each_number_of_streams(capfd: pytest.CaptureFixture[str]) -> None:
    main(["--streams", "1,3", "--tokens", "5", "--rounds", "1", "--json"])
    figures = json.loads(capfd.readouterr().out)
    assert set(figures["cpu_us_per_token"]) == {"1", "3"}
    assert figures["tokens_per_stream"] == 5
