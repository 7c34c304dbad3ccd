from io import StringIO

import pytest
from rich.console import Console

from benchmarks.scaling.__main__ import parse_arguments
from benchmarks.scaling.finding import Finding, show


@pytest.mark.parametrize(("holds", "words"), [(True, "holds: +3%"), (False, "DOES NOT HOLD: +3%")])
def test_a_verdict_stands_below_its_figures(holds: bool, words: str) -> None:
    finding = Finding("Costs stay flat", ("waiting", "µs"), [("0", "2.9"), ("10,000", "3.0")], "+3%", holds)
    written = StringIO()
    show(finding, Console(width=100, file=written))
    assert written.getvalue().splitlines()[-1].strip() == words


def test_an_unknown_claim_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["waitng"])
    assert "no claim waitng: choose of waiting, running" in capsys.readouterr().err


def test_all_claims_are_looked_at_unless_some_are_named() -> None:
    assert parse_arguments([]).claims == []
    assert parse_arguments(["context"]).claims == ["context"]
