"""Rules in a file: what is taken, and a complaint with its place for what is not."""

import re
from pathlib import Path

import pytest

from tailrace.classes import STANDARD
from tailrace.errors import SetupError
from tailrace.frontends.rule_file import read_rules
from tailrace.rules.rule import Action, Rule, Side, Signal
from tailrace.types import Level

LEVELS = (Level.HOST, Level.REDIS)


def read(tmp_path: Path, *lines: str) -> tuple[Rule, ...]:
    path = tmp_path / "rules.jsonl"
    path.write_text("\n".join(lines))
    return read_rules(path, STANDARD, LEVELS)


def test_a_rule_has_sane_defaults(tmp_path: Path) -> None:
    line = '{"name": "r", "signal": "hit_rate", "of": "redis", "below": 0.6, "for_s": 180, "action": "bypass"}'
    assert read(tmp_path, line) == (
        Rule(
            "r",
            Signal.HIT_RATE,
            "redis",
            Side.BELOW,
            0.6,
            for_s=180,
            clear_at=0.66,
            clear_for_s=180,
            action=Action.BYPASS,
            target="redis",
            window_s=180,
            min_samples=20,
            least_loss_s=None,
        ),
    )


def test_everything_can_be_said(tmp_path: Path) -> None:
    line = (
        '{"name": "r", "signal": "ttft_p99", "of": "gold", "above": 1.5, "for_s": 60, "action": "shed", '
        '"on": "bronze", "clear_at": 1, "clear_for_s": 30, "window_s": 90, "min_samples": 5}'
    )
    (rule,) = read(tmp_path, line)
    assert (rule.side, rule.threshold, rule.clear_at, rule.clear_for_s) == (Side.ABOVE, 1.5, 1, 30)
    assert (rule.action, rule.target, rule.window_s, rule.min_samples) == (Action.SHED, "bronze", 90, 5)


@pytest.mark.parametrize(
    ("line", "clear_at"),
    [
        ('"signal": "hit_rate", "of": "redis", "below": 0.95', 1.0),
        ('"signal": "hit_rate", "of": "redis", "above": 0.5', 0.45),
        ('"signal": "queue_p99", "of": "gold", "above": 10', 9.0),
        ('"signal": "waiting", "of": "gold", "below": 10', 11.0),
        ('"signal": "kv_use", "above": 0.9', 0.81),
    ],
)
def test_it_clears_a_tenth_beyond_the_threshold_unless_told(tmp_path: Path, line: str, clear_at: float) -> None:
    (rule,) = read(tmp_path, f'{{"name": "r", "for_s": 1, {line}}}')
    assert rule.clear_at == pytest.approx(clear_at)
    assert (rule.action, rule.target) == (Action.WARN, "")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r"line 2: "),
        ('{"name": "r"}', "missing required field `signal`"),
        ('{"name": "r", "signal": "luck", "for_s": 1}', "luck"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "colour": 1}', "unknown field `colour`"),
        ('{"name": "r", "signal": "kv_use", "for_s": 0, "above": 1}', r"\$\.for_s"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1}', "one of 'below' and 'above'"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "below": 1}', "one of 'below' and 'above'"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "of": "redis"}', "leave 'of' out"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "on": "redis"}', "leave 'on' out"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "action": "shed"}', "needs a class in 'on'"),
        ('{"name": "r", "signal": "hit_rate", "for_s": 1, "below": 1}', "needs a level in 'of': host, redis"),
        ('{"name": "r", "signal": "hit_rate", "for_s": 1, "below": 1, "of": "disk"}', "not 'disk'"),
        ('{"name": "r", "signal": "ttft_p99", "for_s": 1, "above": 1, "of": "tin"}', "gold, silver, bronze; not 'tin'"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "least_loss_ms": 1}', "least_loss_ms is of"),
        ('{"name": "r", "signal": "kv_use", "for_s": 1, "above": 1, "clear_at": 2}', "clear_at must not lie"),
        ('{"name": "r r", "signal": "kv_use", "for_s": 1, "above": 1}', "cannot be called 'r r'"),
        ('{"name": "first", "signal": "kv_use", "for_s": 1, "above": 1}', "'first' is there twice"),
    ],
)
def test_a_complaint_names_the_line_and_the_field(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(SetupError, match=complaint) as raised:
        read(tmp_path, '{"name": "first", "signal": "kv_use", "for_s": 1, "above": 1}', line)
    assert "line 2" in str(raised.value)


def test_there_are_no_more_rules_than_labels_bear(tmp_path: Path) -> None:
    lines = [f'{{"name": "r{count}", "signal": "kv_use", "for_s": 1, "above": 1}}' for count in range(65)]
    assert len(read(tmp_path, *lines[:64])) == 64
    with pytest.raises(SetupError, match="line 65: there can be 64 rules"):
        read(tmp_path, *lines)


def test_the_documents_show_what_is_taken(tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
    (example,) = re.findall("```json\n(.*?)```", document, re.DOTALL)
    assert len(read(tmp_path, example)) == 3
    assert set(re.findall(r"^\| `(\w+)` \| (?:level|class|) ?\|", document, re.MULTILINE)) == set(Signal)
    assert set(re.findall(r"^\* `(\w+)`(?: a \w+)?:", document, re.MULTILINE)) == set(Action)
