"""A broken model never begins to be served: exit code 1 and one line that names the file, whenever the damage shows."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.server.process import free_port, serving
from tests.server.test_process import run_serve
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import GgmlType, random_blocks
from tests.unit.weights.tokenizer_files import GGUF_VOCABULARY, write_tokenizer

V3 = DEEPSEEK["V3"]
EXPERT = "model.layers.2.mlp.experts.7.down_proj.weight"
DIRECTORY, FILE = "model", "model.gguf"


def directory(base: Path, dtype: str = "float16", extra: Mapping[str, NDArray[np.float16]] | None = None) -> Path:
    write_deepseek(base / DIRECTORY, V3, dtype=dtype, num_files=2, extra=extra)
    write_tokenizer(base / DIRECTORY / "tokenizer.json")
    return base / DIRECTORY


def a_shard_cut_short(base: Path) -> Path:
    shard = directory(base) / "model-00002-of-00002.safetensors"
    os.truncate(shard, shard.stat().st_size - 1)
    return base / DIRECTORY


def an_index_that_leads_out(base: Path) -> Path:
    index = directory(base) / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../b.safetensors"}}))
    return base / DIRECTORY


def a_tokenizer_that_is_a_pipe(base: Path) -> Path:
    path = directory(base) / "tokenizer.json"
    path.unlink()
    os.mkfifo(path)
    return base / DIRECTORY


def a_tokenizer_without_a_model(base: Path) -> Path:
    (directory(base) / "tokenizer.json").write_text("{}")
    return base / DIRECTORY


def an_expert_that_is_no_number(base: Path) -> Path:
    return directory(
        base, extra={"model.layers.2.mlp.experts.7.down_proj.weight": np.full((64, 32), np.nan, np.float16)}
    )


def a_norm_that_is_no_number(base: Path) -> Path:
    return directory(base, extra={"model.norm.weight": np.full(64, np.inf, np.float16)})


def blocks_of_an_infinite_scale(base: Path) -> Path:
    blocks = random_blocks(GgmlType.Q4_0, 48, 64)
    blocks[40, :2] = np.array([np.inf], np.float16).view(np.uint8)
    write_deepseek_gguf(
        base / FILE, V3, metadata=GGUF_VOCABULARY, kinds={"head": GgmlType.Q4_0}, blocks={"head": blocks}
    )
    return base / FILE


def merges_of_other_tokens(base: Path) -> Path:
    write_deepseek_gguf(base / FILE, V3)  # whose vocabulary has not what its merges make
    return base / FILE


def a_missing_expert(base: Path) -> Path:
    write_deepseek_gguf(base / FILE, V3, metadata=GGUF_VOCABULARY, left_out=("blk.2.ffn_up_exps.weight",))
    return base / FILE


BROKEN: Mapping[Callable[[Path], Path], str] = {
    a_shard_cut_short: "model-00002-of-00002.safetensors: the file ends at byte",
    an_index_that_leads_out: "model.safetensors.index.json: '../b.safetensors' is not the name of",
    a_tokenizer_that_is_a_pipe: "tokenizer.json: not a file",
    a_tokenizer_without_a_model: "tokenizer.json: not a readable tokenizer.json",
    an_expert_that_is_no_number: f"tensor '{EXPERT}' holds values that are not finite",
    a_norm_that_is_no_number: "tensor 'model.norm.weight' holds values that are not finite",
    blocks_of_an_infinite_scale: "model.gguf: tensor 'output.weight' holds values that are not finite",
    merges_of_other_tokens: "model.gguf: the merges do not fit the vocabulary",
    a_missing_expert: "model.gguf: tensor 'blk.2.ffn_up_exps.weight' is missing",
}


@pytest.mark.parametrize("make", BROKEN, ids=lambda make: make.__name__.replace("_", " "))
def test_a_broken_model_is_one_line_and_is_not_served(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    ended = run_serve(str(make(tmp_path)), "--port", str(free_port()), "--kv-memory", "1MiB")

    assert ended.returncode == 1, ended.stderr
    assert BROKEN[make] in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "ready" not in ended.stdout


# Serves a model, to which something happens when its sizes are known and no tensor has been read.
MEANWHILE = """
import os, sys
from tailrace import cli, loading
from tailrace.serving import run
loading._LARGE_BYTES = {large_bytes}
planned = run.plan_model
def plan_model(checkpoint, config):
    plan = planned(checkpoint, config)
    {what}
    return plan
run.plan_model = plan_model
sys.exit(cli.main(sys.argv[1:]))
"""
CUT = "os.truncate(checkpoint.source, 4096)"
OVERWRITE = "os.utime(checkpoint.source, ns=(0, 1))"


@pytest.mark.parametrize("large_bytes", [0, 1 << 40], ids=["by a loader", "before all else"])
@pytest.mark.parametrize(
    ("what", "reason"), [(CUT, "became shorter while it was read"), (OVERWRITE, "was written to while it was read")]
)
def test_a_file_that_changes_while_it_is_loaded_is_one_line_and_is_not_served(
    tmp_path: Path, what: str, reason: str, large_bytes: int
) -> None:
    write_deepseek_gguf(tmp_path / FILE, V3, metadata=GGUF_VOCABULARY)
    serve = ["serve", str(tmp_path / FILE), "--port", str(free_port()), "--kv-memory", "1MiB", "--kv-host", "0"]
    command = [sys.executable, "-c", MEANWHILE.format(what=what, large_bytes=large_bytes), *serve]
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    ended = subprocess.run(command, env=os.environ | cache, capture_output=True, text=True, timeout=90, check=False)

    assert ended.returncode == 1, ended.stderr
    assert f"tailrace: {tmp_path / FILE}: " in ended.stderr
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr


def test_a_file_that_is_cut_once_it_is_loaded_goes_on_being_served(tmp_path: Path) -> None:
    write_deepseek_gguf(tmp_path / FILE, V3, metadata=GGUF_VOCABULARY)
    with serving(str(tmp_path / FILE), "--kv-memory", "1MiB") as server:
        os.truncate(tmp_path / FILE, 4096)
        body = json.dumps({"prompt": [1, 2, 3], "max_tokens": 4, "ignore_eos": True}).encode()
        request = urllib.request.Request(server.url + "/v1/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            answer = json.load(reply)

    assert answer["usage"]["completion_tokens"] == 4
