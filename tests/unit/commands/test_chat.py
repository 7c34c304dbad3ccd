"""`tailrace chat` as a real process: in a pipe, and on a terminal where Ctrl-C stops an answer."""

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator

from tests.support.signals import hear_ctrl_c
from tests.unit.bench.scripted import Asked, Script, chat_chunk, event, head, json_answer, scripted, usage_chunk

CHAT = (sys.executable, "-m", "tailrace.cli", "chat")


def echo(dots_end: asyncio.Event) -> Script:
    """Answers with the last message in capitals; to a message that ends in dots, the end waits for `dots_end`."""

    async def script(asked: Asked) -> AsyncIterator[bytes]:
        if asked.path == "/v1/models":
            yield json_answer({"data": [{"id": "m"}]})
            return
        text = str(asked.body["messages"][-1]["content"]).upper()
        yield head() + chat_chunk({"content": text})
        if text.endswith("..."):
            await dots_end.wait()
        yield chat_chunk({}, "stop") + usage_chunk(9, 2, cached=4) + event("[DONE]")

    return script


class Terminal:
    """The other end of a pseudo-terminal: types, and waits for what is shown."""

    def __init__(self) -> None:
        self._end, self.device = pty.openpty()
        self.shown = ""
        self._grown = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def _read(self) -> None:
        self.shown += os.read(self._end, 4096).decode()
        self._grown.set()

    def type(self, line: str) -> None:
        os.write(self._end, line.encode() + b"\n")

    async def wait_for(self, text: str) -> None:
        """Until `text` is shown; what came before it is forgotten."""
        while text not in self.shown:
            self._grown.clear()
            await self._grown.wait()
        self.shown = self.shown.partition(text)[2]

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._end)
        os.close(self._end)
        os.close(self.device)


async def test_in_a_pipe_each_line_is_a_message_and_the_answers_come_out_bare() -> None:
    async with scripted(echo(asyncio.Event())) as server:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *CHAT, "--url", server.url, "--system", "Be brief.", stdin=pipe, stdout=pipe, stderr=pipe
        )
        out, err = await process.communicate(b"one\n\ntwo\n")

    assert (process.returncode, out, err) == (0, b"ONE\nTWO\n", b"")
    assert [message["role"] for message in server.asked[-1].body["messages"]] == ["system", "user", "assistant", "user"]


async def test_on_a_terminal_ctrl_c_stops_the_answer_and_the_talk_goes_on() -> None:
    dots_end = asyncio.Event()
    async with scripted(echo(dots_end)) as server:
        terminal = Terminal()
        device = terminal.device
        process = await asyncio.create_subprocess_exec(
            *CHAT, "--url", server.url, stdin=device, stdout=device, stderr=device, preexec_fn=hear_ctrl_c
        )
        await terminal.wait_for("> ")
        terminal.type("wait...")
        await terminal.wait_for("WAIT...")
        process.send_signal(signal.SIGINT)
        await terminal.wait_for("stopped")
        await terminal.wait_for("> ")
        terminal.type("again")
        await terminal.wait_for("AGAIN")
        await terminal.wait_for("9 tokens in (4 cached), 2 out")
        await terminal.wait_for("> ")
        terminal.type("/exit")
        assert await process.wait() == 0
        terminal.close()
        dots_end.set()

    assert server.asked[-1].body["messages"][1] == {"role": "assistant", "content": "WAIT..."}
