import json

import pytest

from benchmarks.grpc import compare


def test_it_runs_and_grpc_takes_fewer_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    compare.main(["--streams", "2", "--tokens", "20", "--interval-ms", "1", "--rounds", "1", "--json"])
    sse, own, vllm = json.loads(capsys.readouterr().out)["results"]
    assert [each["protocol"] for each in (sse, own, vllm)] == ["sse", "tailrace.v1", "vllm"]
    assert own["bytes_per_token"] < vllm["bytes_per_token"] * 2 < sse["bytes_per_token"]
    assert all(each["server_cpu_us_per_token"] > 0 for each in (sse, own, vllm))
