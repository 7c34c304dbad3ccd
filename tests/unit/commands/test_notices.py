import logging

import pytest

from tailrace.commands.notices import log_notice, write_notice


def test_a_notice_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_notice("Serving")
    assert capsys.readouterr() == ("", "Serving\n")


def test_a_notice_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_notice("100% there")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("INFO", "100% there")]
