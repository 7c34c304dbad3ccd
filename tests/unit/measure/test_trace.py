from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.measure.trace import TracedPrompt, read_trace


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_lines_become_prompts_and_blank_ones_nothing(tmp_path: Path) -> None:
    file = write(
        tmp_path / "trace.jsonl",
        '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}',
        "",
        '{"timestamp": 1500, "input_length": 1024, "output_length": 5, "hash_ids": [0, 2]}',
    )
    trace = read_trace(file)
    assert trace.prompts == (TracedPrompt(0.0, 600, (0, 1)), TracedPrompt(1.5, 1024, (0, 2)))
    assert (trace.num_blocks, trace.num_distinct_blocks, trace.num_tokens) == (4, 3, 1624)
    assert [trace.prompts[0].tokens_of(count) for count in (0, 1, 2)] == [0, 512, 600]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["{"], "line 1: Input data was truncated"),
        (['{"timestamp": 0, "input_length": 1}'], "line 1: Object missing required field `hash_ids`"),
        (['{"timestamp": 0, "input_length": 600, "hash_ids": [0]}'], "line 1: 600 tokens make 2 blocks of 512, not 1"),
        (['{"timestamp": -1, "input_length": 0, "hash_ids": []}'], "line 1: Expected `float` >= 0"),
        (
            [
                '{"timestamp": 9, "input_length": 1, "hash_ids": [0]}',
                '{"timestamp": 8, "input_length": 1, "hash_ids": [0]}',
            ],
            "line 2: arrives at 0.008 s, before the line above",
        ),
        (
            [
                '{"timestamp": 0, "input_length": 513, "hash_ids": [0, 1]}',
                '{"timestamp": 0, "input_length": 513, "hash_ids": [2, 1]}',
            ],
            "line 2: hash id 1 follows 2, and elsewhere 0",
        ),
        (["", ""], "has no prompts"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(SetupError, match=message.replace("(", r"\(")):
        read_trace(write(tmp_path / "trace.jsonl", *lines))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot read the trace .*none\.jsonl: No such file"):
        read_trace(tmp_path / "none.jsonl")
