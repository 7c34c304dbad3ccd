import json

import pytest

from benchmarks.http.streaming import main


@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_it_measures_each_api(capfd: pytest.CaptureFixture[str], api: str) -> None:
    main(["--api", api, "--streams", "2", "--tokens", "5", "--json"])
    figures = json.loads(capfd.readouterr().out)
    assert (figures["api"], figures["streams"], figures["tokens_per_stream"]) == (api, 2, 5)
    assert figures["request_us"] > 0
