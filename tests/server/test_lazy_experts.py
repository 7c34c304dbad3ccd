"""A server that loads experts when they are chosen: it dies and goes on, and says what is wrong with its file."""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader

from tailrace.config import EngineConfig
from tailrace.loading import load_model
from tailrace.weights.load import open_checkpoint
from tailrace.weights.tiny_deepseek import tiny_deepseek_path
from tests.server.process import ServerProcess, serving

OPTIONS = ("--model", "tiny-deepseek")
BOUNDS = ("--max-model-tokens", "512", "--kv-memory", "16MiB", "--max-restarts", "1000")
FEW = ("--lazy-experts", "256KiB")
PROMPT = "The family of Dashwood had long been settled in Sussex. Their estate was large, and"
LAYER = 2


def stream(server: ServerProcess, on_frame: Callable[[int], None] = lambda count: None) -> str:
    body = {"prompt": PROMPT, "temperature": 0.8, "seed": 3, "max_tokens": 64, "ignore_eos": True, "stream": True}
    texts = []
    with _opened(server, body) as reply:
        for line in reply:
            if line.startswith(b"data: {"):
                frame = json.loads(line.removeprefix(b"data: "))
                assert "error" not in frame, frame
                texts += [choice["text"] for choice in frame["choices"]]
                on_frame(len(texts))
    return "".join(texts)


def test_an_engine_that_is_killed_loads_its_experts_again_and_streams_go_on() -> None:
    with serving("tiny-deepseek", *BOUNDS) as server:
        undisturbed = stream(server)
    with serving("tiny-deepseek", *BOUNDS, *FEW) as server:
        lazily = stream(server)
        misses = server.metric("tailrace_experts_chosen_total")

        def kill(count: int) -> None:
            if count in (3, 20):
                server.kill("engine")

        killed = stream(server, kill)
        assert server.metric("tailrace_experts_chosen_total") > misses
        assert server.metric("tailrace_experts_evicted_total") > 0
        assert 0 < server.metric("tailrace_expert_resident_bytes") <= 1 << 20

    assert lazily == undisturbed
    assert killed == undisturbed


def test_the_supervisor_holds_no_expert() -> None:
    with serving("tiny-deepseek", *BOUNDS) as server:
        with_all = _private_kib(server.process.pid)
    with serving("tiny-deepseek", *BOUNDS, *FEW) as server:
        stream(server)
        without = _private_kib(server.process.pid)

    assert without < with_all - 500


def test_a_damaged_expert_ends_the_request_that_needs_it_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    shutil.copyfile(tiny_deepseek_path(), path)
    _damage_unused_experts(path)
    with serving(str(path), *BOUNDS, *FEW) as server:
        try:
            with _opened(server, {"prompt": PROMPT * 4, "max_tokens": 64, "ignore_eos": True}) as reply:
                status, answer = reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                status, answer = error.code, json.loads(error.read())
        server.wait_until("/health", 200)
        server.stop()
        output = server.output()

    assert status == 500
    assert "error" in answer
    assert f"blk.{LAYER}.ffn_down_exps" in output


def _opened(server: ServerProcess, body: dict[str, Any]) -> HTTPResponse:
    request = urllib.request.Request(
        server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    opened: HTTPResponse = urllib.request.urlopen(request, timeout=60)
    return opened


def _damage_unused_experts(path: Path) -> None:
    """Of the last layer, those that an engine does not choose while it starts."""
    model = load_model(open_checkpoint(str(path)), EngineConfig(max_model_tokens=512, kv_memory_bytes=16 << 20))
    model.calibrate()
    unused = [expert for expert, tokens in enumerate(model.expert_tokens()[LAYER]) if tokens == 0]
    model.executable.close()
    assert unused
    (tensor,) = (each for each in GGUFReader(path).tensors if each.name == f"blk.{LAYER}.ffn_down_exps.weight")
    damaged = np.memmap(path, np.uint8, "r+", int(tensor.data_offset), (16, int(tensor.n_bytes) // 16))
    damaged[unused] = 0xFF  # scales that are no numbers
    damaged.flush()


def _private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))
