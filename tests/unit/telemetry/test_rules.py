from tailrace.records import RuleReport
from tailrace.telemetry.rules import RuleReports


def test_there_are_none_until_somebody_says_where_they_are() -> None:
    reports, report = RuleReports(), RuleReport("r", "says", "does", "quiet", 1.0, None, False, 0.5, 1.0)
    assert reports.latest() == []
    reports.watch(lambda: (report,))
    assert reports.latest() == [report]
