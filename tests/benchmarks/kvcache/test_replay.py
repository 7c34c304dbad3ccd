import json
from pathlib import Path

import pytest

from benchmarks.kvcache.replay import main
from benchmarks.kvcache.replaying import POLICIES, Machine, Policy, emptiest_first, replay
from benchmarks.kvcache.traces import Scale, TracedRequest, read_trace

CSV = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,320,160
2023-11-16 18:17:04.0799600,48,1
2023-11-16 18:17:05.9799600,99999999,10
2023-11-16 18:17:06.9799600,640,32
"""
JSON_LINES = "\n".join(
    json.dumps({"timestamp": at_ms, "input_length": length, "output_length": 32, "hash_ids": hashed})
    for at_ms, length, hashed in [(0, 1200, [0, 1, 2]), (500, 1536, [0, 1, 3])]
)


@pytest.fixture
def csv_trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(CSV)
    return path


@pytest.fixture
def json_trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text(JSON_LINES)
    return path


def bursts(num_bursts: int) -> list[TracedRequest]:
    """Short and long answers begin together; when the short ones have ended there are holes."""
    requests = []
    for number in range(num_bursts * 12):
        num_output = 200 if number % 6 == 0 else 2
        requests.append(TracedRequest(number // 12 * 1.0, (number * 100,), 40, 20, num_output))
    return requests


def test_a_csv_is_scaled_and_what_is_too_long_left_out(csv_trace: Path) -> None:
    requests = read_trace(csv_trace, Scale(shrink=16, speed=2.0))
    assert [(one.num_prompt_tokens, one.num_output_tokens) for one in requests] == [(20, 10), (3, 1), (40, 2)]
    assert [one.arrival_s for one in requests] == pytest.approx([0.0, 0.05, 1.5], abs=1e-3)
    prompts = [one.prompt_ids for one in requests]
    assert len({token for prompt in prompts for token in prompt}) == 63, "prompts share a token"


def test_equal_hashes_are_equal_beginnings(json_trace: Path) -> None:
    first, second = read_trace(json_trace, Scale(shrink=16))
    assert (first.num_prompt_tokens, second.num_prompt_tokens) == (75, 96)
    assert first.prompt_ids[:64] == second.prompt_ids[:64]
    assert first.prompt_ids[64] != second.prompt_ids[64]


def test_every_request_is_answered_in_full() -> None:
    outcome = replay(bursts(2), Machine(num_blocks=400), Policy())
    assert outcome.num_requests == 24
    assert outcome.num_steps > 200
    assert outcome.p99_first_token_s >= outcome.median_first_token_s > 0.0


def test_blocks_that_are_taken_from_anywhere_hold_more_memory() -> None:
    machine = Machine(num_blocks=400, ttl_s=0.2)
    scattered, filled = (replay(bursts(6), machine, POLICIES[name]) for name in ("none", "fullest first"))
    assert scattered.mean_fragmentation > filled.mean_fragmentation
    assert scattered.mean_resident_bytes > filled.mean_resident_bytes


def test_compaction_moves_blocks_and_gives_memory_back() -> None:
    machine = Machine(num_blocks=400, ttl_s=0.2)
    still = replay(bursts(6), machine, Policy(emptiest_first, compacts=False))
    moving = replay(bursts(6), machine, Policy(emptiest_first))
    assert still.num_moved == 0 < moving.num_moved
    assert moving.mean_resident_bytes < still.mean_resident_bytes


def test_the_report(json_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--trace", str(json_trace), "--blocks", "64"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(POLICIES)
    main(["--trace", str(json_trace), "--json", "--policy", "both"])
    report = json.loads(capsys.readouterr().out)
    assert report["policies"]["both"]["num_requests"] == 2
    assert report["policies"]["both"]["hit_rate"] > 0.0


def test_a_trace_of_which_nothing_fits_is_said_to_be_so(csv_trace: Path) -> None:
    with pytest.raises(SystemExit, match="give more --blocks"):
        main(["--trace", str(csv_trace), "--blocks", "1", "--shrink", "1"])
