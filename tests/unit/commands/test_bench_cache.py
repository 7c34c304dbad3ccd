import json
from pathlib import Path

import pytest

from tailrace.cli import main

LINES = [
    '{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [0, 1]}',
    '{"timestamp": 1000, "input_length": 1024, "output_length": 5, "hash_ids": [0, 2]}',
    '{"timestamp": 2000, "input_length": 1024, "output_length": 5, "hash_ids": [0, 1]}',
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.jsonl"
    file.write_text("\n".join(LINES))
    return file


def test_it_compares_the_policies_at_each_size(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cache", "--trace", str(trace), "--size", "0.67", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 prompts of 3,072 tokens" in shown
    assert "Belady 50.0% / 50.0% 50.0% / 50.0%" in shown
    assert "LRU 33.3% / 33.3% 50.0% / 50.0%" in shown


def test_json_alone_goes_to_standard_output(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cache", "--trace", str(trace), "--size", "1", "--lapse", "5", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["eviction"]["lapse_s"] == 5.0
    assert [hits["policy"] for hits in figures["hits"]] == ["LRU", "LFU", "LRU-K+TTL", "Belady"]


@pytest.mark.parametrize("size", ["0", "1.5"])
def test_a_size_that_is_no_share_is_misuse(trace: Path, size: str) -> None:
    assert main(["bench", "cache", "--trace", str(trace), "--size", size]) == 2


def test_help_shows_an_example_and_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cache", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "tailrace bench cache --trace mooncake_conversation.jsonl" in shown
    assert '"hash_ids": [0, 7]' in shown
