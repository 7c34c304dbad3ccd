import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.cli import main
from tailrace.commands import inspect
from tailrace.errors import CheckpointError
from tailrace.models.config import LatentConfig, MixtureConfig, SparseConfig
from tailrace.ops.program import Routing
from tailrace.weights.checkpoint import GgufVocabulary
from tailrace.weights.inspection import ModelReport
from tailrace.weights.kv_costs import KvCost
from tailrace.weights.precision import Precision
from tailrace.weights.tensor_classes import TensorClass

GATE = TensorClass("gate", 2, 4096, 2048, (("Q4_1", "q4", 1), ("Q6_K", "q8", 1)), 0.0123)
NORM = TensorClass("norm", 1, 64, 256, (("f32", "f32", 1),), None)
DENSE = replace(GATE, name="dense")
NORMS = replace(NORM, name="norms")
REPORT = ModelReport(
    name="tiny",
    source="/models/tiny.gguf",
    architecture="llama",
    fingerprint="ab12",
    parameters=4160,
    active_parameters=4000,
    stored_bytes=2304,
    weight_bytes=3 << 20,
    kv_cache_dtype="bf16",
    kv_bytes_per_token=512,
    kv_costs=(KvCost("bf16", 512, 0.0012), KvCost("int8", 1288, None)),
    context_tokens=2048,
    kv_tokens_at_context=2048,
    kv_bytes_at_context=1 << 20,
    max_model_tokens=8192,
    num_layers=2,
    hidden_size=64,
    intermediate_size=128,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    vocab_size=1000,
    is_tied=True,
    sliding_window=None,
    num_sliding_layers=0,
    rope="theta 10000",
    has_chat_template=True,
    eos_ids=(2,),
    latent=None,
    sparse=None,
    mixture=None,
    num_mixture_layers=0,
    num_mtp_layers=0,
    is_mtp_loaded=False,
    quantize="int8",
    classes=(DENSE, NORMS),
    tensors=(GATE, NORM),
)


VOCABULARY = GgufVocabulary("gpt2", "gpt-2", ("a", "b", "ab"), (1, 1, 1), merges=("a b",))


def shown_of(report: ModelReport, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What is shown of a model that is said to be so, in one line."""
    monkeypatch.setattr(inspect, "inspect_checkpoint", lambda _checkpoint, **_options: report)
    assert main(["inspect", "tiny.gguf"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replaces reading a real model; keeps how it was asked for."""
    calls: list[dict[str, Any]] = []

    def open_checkpoint(model: str | None, **options: Any) -> SimpleNamespace:
        calls.append({"model": model, **options})
        return SimpleNamespace(tokenizer=VOCABULARY)

    def inspect_checkpoint(_checkpoint: SimpleNamespace, **options: Any) -> ModelReport:
        calls[-1] |= {"context_tokens": options["context_tokens"]}
        options["progress"](1, 2)
        return REPORT

    monkeypatch.setattr(inspect, "open_checkpoint", open_checkpoint)
    monkeypatch.setattr(inspect, "inspect_checkpoint", inspect_checkpoint)
    return calls


def test_a_model_is_shown_with_its_sizes_and_what_it_needs(
    opened: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", "tiny.gguf", "--context", "2048", "--quantize", "int8"]) == 0

    shown = capsys.readouterr()
    assert opened == [{"model": "tiny.gguf", "quantize": Precision.parse("int8"), "context_tokens": 2048}]
    for expected in (
        "llama, 2 layers, 4,160 parameters",
        "KV per token         512 bytes",
        "bf16                         512        +0.12%",
        "int8                       1,288  not measured",
        "KV of 2,048 tokens   1.0 MiB",
        "memory needed        4.0 MiB for one request of that length",
        "1 Q4_1 -> q4, 1 Q6_K -> q8",
        "--quantize int8  stored      in memory  bytes    error",
        "dense            Q4_1, Q6_K  q4, q8     2.0 KiB  1.23%",
        "norms            f32         f32        256 bytes",
        "kv of 2,048 tokens           bf16       1.0 MiB",
        "total                                   4.0 MiB",
        "1.23%",
    ):
        assert " ".join(expected.split()) in " ".join(shown.out.split())
    assert shown.err == "", "no progress in a pipe"


def test_json_holds_every_figure(opened: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "tiny.gguf", "--json"]) == 0

    figures = json.loads(capsys.readouterr().out)
    assert figures == json.loads(json.dumps(REPORT.to_dict() | {"tokenizer_refusal": None}))
    assert opened[0]["context_tokens"] is None


def test_separate_heads_and_no_template_are_named(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = shown_of(replace(REPORT, is_tied=False, has_chat_template=False), monkeypatch, capsys)
    assert "chat template none" in shown
    assert "separate from the output head" in shown


def test_what_deepseek_models_have_is_shown(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deepseek = replace(
        REPORT,
        latent=LatentConfig(latent_dim=512, plain_dim=128, rope_dim=64, value_dim=128, query_latent_dim=1536),
        sparse=SparseConfig(num_heads=64, head_dim=128, top_k=2048),
        mixture=MixtureConfig(Routing(256, 8, "sigmoid", 8, 4, "top two"), expert_size=2048, num_shared=1),
        num_mixture_layers=58,
        num_mtp_layers=1,
        classes=(DENSE, replace(GATE, name="experts", bytes=2 << 20), NORMS),
    )
    shown = shown_of(deepseek, monkeypatch, capsys)
    for expected in (
        "attention 4 heads of 128 + 64 turned, values of 128; latents of 512 + 64, queries from 1536",
        "index 64 heads, 128 wide, keeps 2,048 tokens",
        "experts 256 in each of 58 layers, 2048 wide: 8 used from 4 of 8 groups, 1 shared",
        "parameters in use 4,000 for a token",
        "with --lazy-experts 2.0 MiB, and as much of 2.0 MiB of experts as there is room for: a token uses 64.0 KiB",
        "multi-token prediction in the file, not loaded, and not among the parameters; layers: 1",
    ):
        assert expected in shown
    assert "experts 256 in 1 layer, 2048" in shown_of(replace(deepseek, num_mixture_layers=1), monkeypatch, capsys)


@pytest.mark.usefixtures("opened")
def test_windows_are_shown_with_the_layers_that_have_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every = replace(REPORT, sliding_window=1024, num_sliding_layers=2, kv_tokens_at_context=1152)
    shown = shown_of(every, monkeypatch, capsys)
    assert "window 1,024 tokens positions" in shown
    assert "KV of 2,048 tokens 1.0 MiB, of the 1,152 that are held at once" in shown

    some = shown_of(replace(every, num_sliding_layers=1, kv_tokens_at_context=2048), monkeypatch, capsys)
    assert "window 1,024 tokens in 1 layer positions" in some
    assert "KV of 2,048 tokens 1.0 MiB memory" in some

    unused = shown_of(replace(every, num_sliding_layers=0), monkeypatch, capsys)
    assert "window" not in unused


def test_a_tokenizer_that_cannot_be_used_is_told_of(
    opened: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "tokenizer" not in shown_of(REPORT, monkeypatch, capsys)

    unknown = SimpleNamespace(tokenizer=replace(VOCABULARY, pre="gpt-99"))
    monkeypatch.setattr(inspect, "open_checkpoint", lambda _model, **_options: unknown)

    reason = "the model: pre-tokenizer 'gpt-99' (tokenizer.ggml.pre) is not supported"
    assert f"tokenizer cannot be used: {reason}" in shown_of(REPORT, monkeypatch, capsys)
    main(["inspect", "tiny.gguf", "--json"])
    assert json.loads(capsys.readouterr().out)["tokenizer_refusal"].startswith(reason)


def test_a_damaged_file_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_model: str | None, **_options: Any) -> str:
        raise CheckpointError("tiny.gguf ends in the middle of tensor 'gate'")

    monkeypatch.setattr(inspect, "open_checkpoint", fail)

    assert main(["inspect", "tiny.gguf"]) == 1
    assert capsys.readouterr().err == "tailrace: tiny.gguf ends in the middle of tensor 'gate'\n"
