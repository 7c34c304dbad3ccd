"""The command line as a user meets it: help, exit codes, one line for each error."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tailrace.cli import main
from tailrace.commands import bench
from tailrace.verbs import VERBS
from tailrace.version import __version__
from tests.support.signals import hear_ctrl_c
from tests.unit.bench.scripted import Asked, head, json_answer, scripted, text_chunk

TAILRACE = (sys.executable, "-m", "tailrace.cli")


def raising(error: BaseException) -> Any:
    def run(*_arguments: object) -> None:
        raise error

    return run


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_every_verb(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0

    shown = capsys.readouterr().out
    assert all(verb in shown and summary in shown for verb, summary in VERBS.items())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0

    shown = capsys.readouterr().out
    assert VERBS[verb] in shown
    assert f"Examples:\n  tailrace {verb}" in shown


def test_help_loads_no_verb_and_nothing_heavy() -> None:
    script = """
import sys, tailrace.cli
tailrace.cli.main(["--help"])
sys.exit(", ".join({"numpy", "asyncio", "ssl", "tailrace.commands", "tailrace.library"} & {*sys.modules}) or 0)
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sevre"], "sevre"),
        (["bench", "--rat", "3"], "--rat"),
        (["bench", "--rate", "fast"], "--rate"),
        (["bench", "--rate", "-1"], "--rate"),
        (["complete", "a", "--top-p", "7"], "--top-p"),
        (["bench", "--timeout", "nan"], "--timeout"),
        (["serve", "--kv-memory", "lots"], "lots"),
        (["serve", "--threads", "0"], "--threads"),
        (["complete", "a", "b"], "b"),
    ],
)
def test_a_misused_command_line_is_one_sentence_a_hint_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2

    complaint, hint = capsys.readouterr().err.splitlines()
    assert complaint.startswith("tailrace: ")
    assert message in complaint
    assert "--help" in hint


def test_an_error_on_purpose_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--url", "ftp://example"]) == 1

    assert capsys.readouterr().err.splitlines() == [
        "tailrace: 'ftp://example' is not a server's URL: write it like http://127.0.0.1:8000"
    ]


def test_an_error_of_our_own_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TAILRACE_DEBUG", raising=False)
    monkeypatch.setattr(bench, "run_benchmark", raising(ZeroDivisionError("by nought")))

    assert main(["bench"]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tailrace: internal error: ZeroDivisionError: by nought")


def test_debugging_shows_where_it_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_DEBUG", "1")
    monkeypatch.setattr(bench, "run_benchmark", raising(ZeroDivisionError("by nought")))

    with pytest.raises(ZeroDivisionError):
        main(["bench"])


async def test_ctrl_c_ends_a_real_process_quietly_with_130() -> None:
    is_asked = asyncio.Event()
    forever = asyncio.Event()

    async def script(_asked: Asked) -> AsyncIterator[bytes]:
        is_asked.set()
        yield head()
        await forever.wait()

    async with scripted(script) as server:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *TAILRACE, "bench", "--url", server.url, stdout=pipe, stderr=pipe, preexec_fn=hear_ctrl_c
        )
        await is_asked.wait()
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        forever.set()

    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("module", ["cyclopts", "tailrace.verbs", "numpy"])
def test_ctrl_c_while_modules_load_ends_quietly_with_130(module: str) -> None:
    script = f"""
import signal, sys
import tailrace.cli

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.exit(tailrace.cli.main(["bench", "synth", "no-such-shape"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, preexec_fn=hear_ctrl_c)

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_numpy_computes_on_one_thread_unless_told_otherwise(given: dict[str, str], threads: str) -> None:
    script = """
import os, sys, tailrace.cli
tailrace.cli.main(["serve", "--help"])
assert "numpy" in sys.modules
print(os.environ["OPENBLAS_NUM_THREADS"], len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | given

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)

    allowed, started = done.stdout.splitlines()[-1].split()
    assert allowed == threads
    assert int(started) <= int(threads)


async def test_a_reader_that_leaves_ends_the_process_without_a_traceback() -> None:
    async def script(asked: Asked) -> AsyncIterator[bytes]:
        if asked.path == "/v1/models":
            yield json_answer({"data": [{"id": "m"}]})
            return
        yield head() + text_chunk("Once upon a time", "stop")

    read_end, write_end = os.pipe()
    os.close(read_end)
    async with scripted(script) as server:
        process = await asyncio.create_subprocess_exec(
            *TAILRACE, "complete", "hi", "--url", server.url, stdout=write_end, stderr=asyncio.subprocess.PIPE
        )
        os.close(write_end)
        _, err = await process.communicate()

    assert (process.returncode, err) == (141, b"")


def test_the_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0

    assert capsys.readouterr().out == f"{__version__}\n"


def test_the_collector_is_as_it_was_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    before = gc.get_threshold()
    assert main(["--version"]) == 0
    assert main(["no-such-verb"]) == 2
    assert gc.get_threshold() == before
