import logging

import pytest

from tailrace.commands.notices import log_notice, logging_failure, write_notice
from tailrace.errors import SetupError


def test_a_notice_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    write_notice("Serving")
    assert capsys.readouterr() == ("", "Serving\n")


def test_a_notice_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_notice("100% there")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("INFO", "100% there")]


def test_why_a_program_ends_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, logging_failure():
        raise SetupError("port 80 is taken")
    assert ended.value.code == 1
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("CRITICAL", "port 80 is taken")]
    assert capsys.readouterr() == ("", "")
