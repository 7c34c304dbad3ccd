import json
from pathlib import Path

import pytest

from tailrace.classes import ServiceClass, ServiceClasses
from tailrace.errors import SetupError
from tailrace.frontends.class_file import read_classes

FAST = {"name": "interactive", "priority": 4, "ttft_ms": 1000, "itl_ms": 50, "queue_ttl_s": 10}
SLOW = {"name": "batch", "priority": 1, "ttft_ms": 6e4, "itl_ms": 500.5, "queue_ttl_s": 600, "default": True}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "classes.jsonl"


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_each_line_is_a_class_best_first(path: Path) -> None:
    write(path, FAST | {"min_share": 0.25}, SLOW | {"is_refused_late": False, "max_yields": 0})
    assert read_classes(path) == ServiceClasses(
        (
            ServiceClass("interactive", 4.0, ttft_s=1.0, itl_s=0.05, min_share=0.25, queue_ttl_s=10.0),
            ServiceClass(
                "batch",
                1.0,
                ttft_s=60.0,
                itl_s=0.5005,
                min_share=0.0,
                queue_ttl_s=600.0,
                is_refused_late=False,
                max_yields=0,
            ),
        ),
        default_name="batch",
    )


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["", FAST, "nonsense"], "line 3: "),
        ([FAST | {"weight": 3}, SLOW], "line 1: .*unknown field `weight`"),
        ([{"name": "batch", "default": True}], "line 1: .*missing required field `priority`"),
        ([FAST | {"ttft_ms": 0}, SLOW], r"line 1: .*`\$.ttft_ms`"),
        ([FAST | {"itl_ms": -1}, SLOW], r"line 1: .*`\$.itl_ms`"),
        ([FAST | {"priority": "high"}, SLOW], r"line 1: .*`\$.priority`"),
        ([FAST, SLOW | {"min_share": 1}], r"line 2: .*`\$.min_share`"),
        ([FAST, SLOW | {"max_yields": -1}], r"line 2: .*`\$.max_yields`"),
        ([FAST, SLOW | {"queue_ttl_s": 1e9}], r"line 2: .*`\$.queue_ttl_s`"),
        ([FAST | {"name": "two words"}, SLOW], "line 1: a class cannot be called 'two words'"),
        ([FAST | {"name": "auto"}, SLOW], "line 1: a class cannot be called 'auto'"),
        (['{"name": "x", "priority": 1e999}', SLOW], "line 1: "),
        ([FAST], '"default": true must be on one line'),
        ([FAST | {"default": True}, SLOW], '"default": true must be on one line'),
        ([], '"default": true must be on one line'),
        ([SLOW, FAST], "classes.jsonl: list service classes by falling priority"),
        ([FAST, FAST, SLOW], "classes.jsonl: two service classes have the same name"),
        ([FAST | {"min_share": 0.4}, SLOW | {"min_share": 0.2}], "classes.jsonl: the least shares"),
        ([FAST | {"name": f"c{place}"} for place in range(8)] + [SLOW], "classes.jsonl: 9 service classes"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_field(path: Path, lines: list[object], complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint) as refused:
        read_classes(write(path, *lines))
    assert str(path) in str(refused.value)
