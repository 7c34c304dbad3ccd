"""What a checkpoint is said to hold and need."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tailrace.errors import SetupError
from tailrace.models.config import RopeScaling
from tailrace.ops.packed import quantize_int4
from tailrace.weights.composed import Stacked
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.hf_checkpoint import open_directory
from tailrace.weights.inspection import inspect_checkpoint
from tailrace.weights.precision import CLASSES, Precision, precision_class
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek
from tests.unit.weights.model_files import TINY, GgmlType, write_directory, write_gguf


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.gguf"


def test_sizes_are_those_of_the_model(path: Path) -> None:
    values = write_gguf(path)
    report = inspect_checkpoint(open_gguf(path))
    parameters = sum(value.size for value in values.values())
    assert report.parameters == parameters
    assert report.weight_bytes == 4 * parameters
    assert report.stored_bytes == path.stat().st_size
    assert report.kv_bytes_per_token == 2 * 2 * 2 * 16 * 2  # layers, k and v, KV heads, head size, bytes
    assert report.kv_bytes_at_context == 128 * report.kv_bytes_per_token
    assert report.memory_bytes == report.weight_bytes + report.kv_bytes_at_context
    assert (report.architecture, report.vocab_size, report.rope) == ("llama", 48, "theta 10000")


def test_a_shorter_context_needs_less(path: Path) -> None:
    write_gguf(path)
    report = inspect_checkpoint(open_gguf(path), context_tokens=10)
    assert report.kv_bytes_at_context == 10 * report.kv_bytes_per_token


@pytest.mark.parametrize(
    ("window", "num_full", "num_sliding", "held"),
    [(None, 0, 0, 128), (7, 0, 2, 7), (64, 0, 2, 72), (120, 0, 2, 128), (64, 1, 1, 128), (64, 2, 0, 128)],
)
def test_windows_hold_what_they_see_and_what_they_move_on_by(
    path: Path, window: int | None, num_full: int, num_sliding: int, held: int
) -> None:
    write_gguf(path)
    config = dataclasses.replace(TINY, sliding_window=window, num_full_attention_layers=num_full)
    report = inspect_checkpoint(dataclasses.replace(open_gguf(path), config=config))
    assert (report.num_sliding_layers, report.kv_tokens_at_context) == (num_sliding, held)
    assert report.kv_bytes_at_context == held * report.kv_bytes_per_token
    assert report.memory_bytes == report.weight_bytes + report.kv_bytes_at_context


@pytest.mark.parametrize("context_tokens", [0, 129])
def test_a_context_the_model_does_not_have_is_refused(path: Path, context_tokens: int) -> None:
    write_gguf(path)
    with pytest.raises(SetupError, match="the context of m is 1 to 128 tokens"):
        inspect_checkpoint(open_gguf(path), context_tokens=context_tokens)


def test_formats_and_losses_are_told_by_class(path: Path) -> None:
    write_gguf(path, kinds={"layers.0.up": GgmlType.Q5_1, "layers.1.up": GgmlType.Q4_1, "embed": GgmlType.Q8_0})
    classes = {part.name: part for part in inspect_checkpoint(open_gguf(path)).tensors}
    assert classes["embed"].formats == (("Q8_0", "q8", 1),)
    assert classes["up"].formats == (("Q4_1", "q4", 1), ("Q5_1", "q8", 1))
    assert (classes["up"].num_tensors, classes["up"].parameters) == (2, 2 * 96 * 64)
    assert classes["up"].bytes == 96 * 2 * (20 + 34)
    assert 0 < (classes["up"].requantize_error or 0) < 0.02
    assert classes["embed"].requantize_error is None


def test_classes_are_those_of_the_map_with_what_narrowing_them_lost(tmp_path: Path) -> None:
    values = write_deepseek(tmp_path, DEEPSEEK["V3"], dtype="float16")
    precision = Precision.parse("int4,attention=int8,shared=float,kv=int8")
    report = inspect_checkpoint(open_directory(tmp_path, precision), precision=precision)
    found = {part.name: (part.bytes, {loaded for _, loaded, _ in part.formats}) for part in report.classes}
    sizes = {name: sum(v.size for tensor, v in values.items() if precision_class(tensor) == name) for name in CLASSES}
    assert found["experts"] == (sizes["experts"] * 20 // 32, {"q4"})
    assert found["shared"] == (sizes["shared"] * 2, {"f16"})
    assert found["embed"] == (sizes["embed"] * 34 // 32, {"q8"})
    assert list(found) == ["attention", "dense", "experts", "shared", "head", "embed", "routers", "norms"]
    assert sum(part.bytes for part in report.classes) == report.weight_bytes
    errors = {part.name: part.requantize_error for part in report.classes}
    assert errors["shared"] is errors["routers"] is errors["norms"] is None
    assert 0.05 < (errors["experts"] or 0) < 0.12
    assert 0.003 < (errors["attention"] or 0) < 0.012
    assert report.quantize == "int4,attention=int8,shared=float,kv=int8"


def test_the_error_of_a_class_is_that_of_all_its_values(path: Path) -> None:
    values = write_gguf(path)
    report = inspect_checkpoint(open_gguf(path, "int4"))
    dense = {name: value for name, value in values.items() if precision_class(name) == "dense"}
    lost = sum(np.square(quantize_int4(value).dequantize() - value).sum() for value in dense.values())
    error = np.sqrt(lost / sum(np.square(value).sum() for value in dense.values()))
    (found,) = (part.requantize_error for part in report.classes if part.name == "dense")
    assert found == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("kv", ["bf16", "int8", "f32"])
def test_memory_is_that_of_the_kv_format_that_was_asked_for(path: Path, kv: str) -> None:
    write_gguf(path)
    precision = Precision.parse(f"kv={kv}")
    report = inspect_checkpoint(open_gguf(path, precision), precision=precision)
    (cost,) = (cost.bytes_per_token for cost in report.kv_costs if cost.kv_cache_dtype == kv)
    assert (report.kv_cache_dtype, report.kv_bytes_per_token) == (kv, cost)
    assert report.memory_bytes == report.weight_bytes + 128 * cost


@pytest.mark.parametrize(
    ("name", "values_per_token"),
    [("MoE-16B", 3 * 2 * 2 * 16), ("V2-Lite", 3 * (32 + 8)), ("V3.2", 3 * (32 + 8 + 16))],
)
def test_kv_is_what_the_model_caches(tmp_path: Path, name: str, values_per_token: int) -> None:
    write_deepseek(tmp_path, DEEPSEEK[name])
    assert inspect_checkpoint(open_directory(tmp_path)).kv_bytes_per_token == 2 * values_per_token


def test_a_token_uses_the_experts_it_chooses(tmp_path: Path) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3"])
    report = inspect_checkpoint(open_directory(tmp_path))
    all_experts, embedding = 2 * 8 * 3 * 32 * 64, 48 * 64
    assert report.active_parameters == report.parameters - embedding - all_experts * 5 // 8
    assert (report.num_mixture_layers, report.latent, report.mixture) == (
        2,
        DEEPSEEK["V3"].latent,
        DEEPSEEK["V3"].mixture,
    )
    assert report.expert_bytes == all_experts * 4  # float32
    assert report.chosen_expert_bytes == report.expert_bytes * 3 // 8
    assert report.sparse is None


@pytest.mark.parametrize("mtp", [False, True])
def test_multi_token_prediction_is_told_of_whether_loaded_or_not(tmp_path: Path, mtp: bool) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3 with MTP"])
    report = inspect_checkpoint(open_directory(tmp_path, mtp=mtp))
    assert (report.num_mtp_layers, report.is_mtp_loaded) == (2, mtp)
    classes = {part.name: part.num_tensors for part in report.tensors}
    assert ("mtp eh_proj" in classes) is mtp
    assert classes["attention_norm"] == 3


def test_matrices_that_stay_as_they_are_need_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deepseek(tmp_path, DEEPSEEK["V3"], dtype="float16")
    monkeypatch.setattr(Stacked, "packed", None)
    experts = {part.name: part for part in inspect_checkpoint(open_directory(tmp_path)).tensors}["experts.gate"]
    assert experts.formats == (("F16", "f16", 2),)
    assert experts.bytes == 2 * 2 * 8 * 32 * 64


def test_the_files_of_a_directory_are_added_up(tmp_path: Path) -> None:
    write_directory(tmp_path, num_files=2)
    stored = sum(file.stat().st_size for file in tmp_path.glob("*.safetensors"))
    assert inspect_checkpoint(open_directory(tmp_path)).stored_bytes == stored


def test_progress_is_told_tensor_by_tensor(path: Path) -> None:
    write_gguf(path)
    steps: list[tuple[int, int]] = []
    inspect_checkpoint(open_gguf(path), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(done, 21) for done in range(1, 22)]


def test_a_report_is_plain_data(path: Path) -> None:
    write_gguf(path)
    report = inspect_checkpoint(open_gguf(path))
    data = json.loads(json.dumps(report.to_dict()))
    assert data["memory_bytes"] == report.memory_bytes
    assert data["tensors"][0]["name"] == "embed"


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        (RopeScaling("linear", factor=4.0), "theta 10000, linear x4"),
        (RopeScaling("llama3", factor=8.0, original_max_tokens=8192), "theta 10000, llama3 x8 from 8192 tokens"),
        (RopeScaling("factors", factors=(2.0,) * 8), "theta 10000, 8 factors of its own"),
    ],
)
def test_rope_is_put_in_words(path: Path, scaling: RopeScaling, words: str) -> None:
    write_gguf(path)
    checkpoint = open_gguf(path)
    scaled = dataclasses.replace(checkpoint, config=dataclasses.replace(TINY, rope_scaling=scaling))
    assert inspect_checkpoint(scaled).rope == words
