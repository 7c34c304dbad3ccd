import json
import random
from pathlib import Path

import pytest

from benchmarks.kvcache.asking import Answer
from benchmarks.kvcache.cold_start import NUM_PROMPTS, PROMPT_TOKENS, arrivals_of, figures_of, starts, system_prompt
from tailrace.frontends.warm_file import read_prompts


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    rows = [f"2023-11-16 18:{second // 60:02}:{second % 60:02}.5,{160 + second},7" for second in range(600)]
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    return file


def test_requests_come_at_times_of_the_trace_and_begin_with_a_system_prompt(trace: Path) -> None:
    arrivals = arrivals_of(trace, 60.0, 0.5, random.Random(1))
    assert len(arrivals) == 30
    times_s = [arrival.at_s for arrival in arrivals]
    assert times_s == sorted(set(times_s))
    assert all(float(at_s).is_integer() and 0 <= at_s < 60 for at_s in times_s)
    prompts = [system_prompt(number) for number in range(NUM_PROMPTS)]
    for arrival in arrivals:
        assert arrival.token_ids[:PROMPT_TOKENS] in prompts
        assert len(arrival.token_ids) == PROMPT_TOKENS + (160 + int(arrival.at_s)) // 16 + 1
    assert arrivals == arrivals_of(trace, 60.0, 0.5, random.Random(1))


def test_figures_are_percentiles_and_the_share_that_was_cached() -> None:
    answers = [Answer(ms / 1e3, 100, {"engine": 48}) for ms in range(101)]
    figures = figures_of("nothing", 1.5, answers)
    assert figures.p50_ms == pytest.approx(50.0)
    assert figures.p99_ms == pytest.approx(99.0)
    assert figures.cached_share == pytest.approx(0.48)


def test_the_list_that_a_server_is_given_is_one_it_can_read(tmp_path: Path) -> None:
    flags = starts(tmp_path)
    listed = Path(flags["warm list"][flags["warm list"].index("--warm") + 1])
    assert len(read_prompts(listed)) == NUM_PROMPTS
    assert json.loads(listed.read_text().splitlines()[0]) == {"token_ids": system_prompt(0)}
