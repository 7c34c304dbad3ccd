import contextvars
import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from tailrace.telemetry.log_context import LogContext, log_context
from tailrace.telemetry.log_lines import JsonLines

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PROGRAM = """
import logging, os, sys, threading, warnings
from setproctitle import setproctitle
from tailrace.serving.children import process_name
from tailrace.telemetry.log_lines import write_json_log
write_json_log(process_name)
own, other = logging.getLogger("tailrace.a"), logging.getLogger("uvicorn.error")
own.info("told"), own.debug("not told"), other.info("not told"), other.warning("told, too")
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(), thread.join()
if (pid := os.fork()) == 0:
    setproctitle("tailrace: engine")
    own.error("of a child")
    os._exit(0)
os.waitpid(pid, 0)
raise ValueError("the end")
"""


def line_of(message: object, *arguments: object, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("tailrace.x", logging.WARNING, "x.py", 1, message, arguments, None)
    record.created = 1_790_000_000.25
    vars(record).update(more)
    text = JsonLines(lambda: "supervisor").format(record)
    assert "\n" not in text
    fields: dict[str, Any] = json.loads(text)
    return fields


def test_a_line_says_what_there_is_to_say_and_nothing_else() -> None:
    assert line_of("%d of\nthem", 3) == {
        "time": "2026-09-21T14:13:20.250000+00:00",
        "level": "warning",
        "logger": "tailrace.x",
        "message": "3 of\nthem",
        "process": "supervisor",
    }


def test_a_line_names_the_request_and_the_trace_of_its_task() -> None:
    def told() -> dict[str, Any]:
        log_context.set(LogContext("mine", TRACE_ID))
        return line_of("x")

    fields = contextvars.copy_context().run(told)
    assert (fields["request_id"], fields["trace_id"]) == ("mine", TRACE_ID)
    assert "request_id" not in line_of("x")


def test_what_a_line_says_itself_goes_first() -> None:
    def told() -> dict[str, Any]:
        log_context.set(LogContext("of the task", "0" * 32))
        return line_of("x", request_id="mine", trace=f"00-{TRACE_ID}-00f067aa0ba902b7-01")

    fields = contextvars.copy_context().run(told)
    assert (fields["request_id"], fields["trace_id"]) == ("mine", TRACE_ID)


def test_an_error_is_in_its_line() -> None:
    try:
        raise KeyError("\ud800 odd")
    except KeyError:
        fields = line_of("x", exc_info=sys.exc_info())
    assert fields["exception"].startswith("Traceback")
    assert "KeyError" in fields["exception"]


@pytest.mark.parametrize("message", ["\ud800", "\x00\x1b[31m", '"}', "é\u2028"])
def test_whatever_is_said_is_one_object_of_ascii(message: str) -> None:
    assert line_of(message)["message"] == message


def test_all_processes_write_objects_whatever_befalls_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [
        (line["level"], line["message"].partition("\n")[0]) for line in lines if line["logger"] != "py.warnings"
    ] == [
        ("info", "told"),
        ("warning", "told, too"),
        ("critical", "an error that nobody expected"),
        ("error", "of a child"),
        ("critical", "an error that nobody expected"),
    ]
    assert "old" in next(line["message"] for line in lines if line["logger"] == "py.warnings")
    assert [line["process"] for line in lines] == ["supervisor"] * 4 + ["engine", "supervisor"]
    assert "ZeroDivisionError" in lines[3]["exception"]
    assert "ValueError: the end" in lines[5]["exception"]
