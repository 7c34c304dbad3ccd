import gzip
from pathlib import Path

import pytest

from tailrace.errors import SetupError
from tailrace.measure.simulation.trace import TracedRequest, conversations, read_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
LINES = "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"


def test_the_excerpt_has_thousands_of_requests_in_order() -> None:
    requests = conversations()
    assert len(requests) == 6000
    assert requests[0] == TracedRequest(0.0, 374, 44)
    assert [one.at_s for one in requests] == sorted(one.at_s for one in requests)
    assert 1100 < sum(one.num_prompt_tokens for one in requests) / len(requests) < 1300


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_file_of_azure_is_read_packed_or_not(tmp_path: Path, name: str) -> None:
    data = (HEADER + LINES).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    first, second = read_trace(tmp_path / name)
    assert (first.num_prompt_tokens, first.num_output_tokens) == (374, 44)
    assert second.at_s - first.at_s == pytest.approx(4.314579, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "its first line must be"),
        ("a,b,c\n1,2,3\n", "its first line must be"),
        (HEADER, "has no requests"),
        (HEADER + "0,1\n", "line 2: 2 values, not 3"),
        (HEADER + "0,1,1\n5,x,1\n", "line 3"),
        (HEADER + "yesterday,1,1\n", "line 2"),
        (HEADER + "5,1,0\n", "no lengths"),
        (HEADER + "5,1,1\n4,1,1\n", "line 3: it comes before the line above"),
    ],
)
def test_anything_else_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(SetupError, match=says):
        read_trace(file)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "trace.csv.gz"
    broken.write_bytes(b"no gzip")
    for path in (tmp_path / "none.csv", broken):
        with pytest.raises(SetupError, match=path.name):
            read_trace(path)
