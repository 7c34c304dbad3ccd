"""Whole models, from file to file."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType
from safetensors.numpy import load_file

from tailrace.errors import CheckpointError, SetupError, UnsupportedModel
from tailrace.ops.packed import PackedTensor
from tailrace.quantizing.directory_output import directory_output
from tailrace.quantizing.grid import Grid
from tailrace.quantizing.plan import make_plan
from tailrace.quantizing.quantize import Job, QuantizeReport, quantize
from tailrace.quantizing.rounding import rounded
from tailrace.quantizing.source import open_source
from tailrace.weights.gguf import read_gguf
from tailrace.weights.load import open_checkpoint
from tests.unit.quantizing.test_pack_quantized import dequantized
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek, write_deepseek_gguf
from tests.unit.weights.model_files import (
    TINY,
    add_entry,
    gguf_metadata,
    gguf_tensors,
    write_directory,
    write_gguf,
    write_gguf_part,
)

Width = Literal["int8", "int4"]
WIDTHS: tuple[Width, ...] = ("int8", "int4")


def quantized(model: Path, job: Job, output: Path, **options: bool) -> QuantizeReport:
    return quantize(open_checkpoint(str(model)), job, output, lambda *_: None, **options)


def assert_same(found: Mapping[str, PackedTensor], expected: Mapping[str, PackedTensor]) -> None:
    assert set(found) == set(expected)
    for name in expected:
        ours, theirs = found[name], expected[name]
        assert (ours.shape, ours.format) == (theirs.shape, theirs.format), name
        for part in ("values", "scales", "offsets"):
            left, right = getattr(ours, part), getattr(theirs, part)
            assert (left is None) == (right is None), name
            assert left is None or np.array_equal(left, right), name


@pytest.mark.parametrize("to", WIDTHS)
def test_a_gguf_file_holds_what_the_loader_would_have_made_bit_for_bit(tmp_path: Path, to: Width) -> None:
    write_gguf(tmp_path / "in.gguf")
    quantized(tmp_path / "in.gguf", Job(to, held_out_tokens=0), tmp_path / "out.gguf")

    found, expected = (
        open_checkpoint(str(tmp_path / "out.gguf")),
        open_checkpoint(str(tmp_path / "in.gguf"), quantize=to),
    )
    assert_same(found.tensors, expected.tensors)


@pytest.mark.parametrize("name", ["V2-Lite", "V3", "V3 with MTP"])
@pytest.mark.parametrize("is_old", [False, True])
def test_so_it_does_with_experts_and_latents(tmp_path: Path, name: str, is_old: bool) -> None:
    config = DEEPSEEK[name]
    write_deepseek_gguf(tmp_path / "in.gguf", config, is_old=is_old)
    quantized(tmp_path / "in.gguf", Job("int8", held_out_tokens=0), tmp_path / "out.gguf")

    found, expected = (
        open_checkpoint(str(tmp_path / "out.gguf")),
        open_checkpoint(str(tmp_path / "in.gguf"), quantize="int8"),
    )
    halves = ("k_b", "v_b") if is_old else ()  # the loader splits kv_b first, and turns one half
    assert_same(
        *(
            {key: part.tensors[key] for key in part.tensors if not key.endswith(halves or "\n")}
            for part in (found, expected)
        )
    )
    assert found.config == expected.config


def test_metadata_and_what_is_not_a_matrix_of_the_model_are_kept(tmp_path: Path) -> None:
    more = {
        "general.name": "café",
        "some.list": [1.5, 2.5],
        "some.flag": True,
        "some.number": 7,
        "general.file_type": 1,
    }
    write_gguf(tmp_path / "in.gguf", metadata=more, extra={"rope_freqs.weight": np.ones(8, np.float32)})
    quantized(tmp_path / "in.gguf", Job("int4", held_out_tokens=0), tmp_path / "out.gguf")

    before, after = read_gguf(tmp_path / "in.gguf"), read_gguf(tmp_path / "out.gguf")
    assert set(after.tensors) == set(before.tensors)
    assert set(after.metadata) == set(before.metadata) | {"general.quantization_version"}
    for key, value in before.metadata.items():
        assert key == "general.file_type" or np.array_equal(list_of(after.metadata[key]), list_of(value)), key
        assert type(after.metadata[key]) is type(value)
    assert after.metadata["general.file_type"] == 3  # mostly Q4_1
    assert after.tensors["rope_freqs.weight"].type.name == "F32"


def test_a_file_in_parts_becomes_one_with_the_metadata_of_the_first(tmp_path: Path) -> None:
    values, stored = gguf_tensors(TINY, {}, {})
    names, parts = list(stored), [tmp_path / f"in-0000{number}-of-00002.gguf" for number in (1, 2)]
    for number, (path, some) in enumerate(zip(parts, (names[:9], names[9:]), strict=True)):
        entries = gguf_metadata(TINY) if number == 0 else {}
        split = {"split.no": number, "split.count": 2, "split.tensors.count": len(names)}
        write_gguf_part(path, entries | split, {name: stored[name] for name in some})
    quantized(parts[1], Job("int8", held_out_tokens=0), tmp_path / "out.gguf")

    found = open_checkpoint(str(tmp_path / "out.gguf"))
    assert set(found.tensors) == set(values)
    assert found.chat_template == "{{ messages }}"
    assert not any(key.startswith("split.") for key in read_gguf(tmp_path / "out.gguf").metadata)


def test_data_lies_as_the_metadata_says(tmp_path: Path) -> None:
    write_gguf(tmp_path / "plain.gguf")
    more = {"general.alignment": 256}
    writer = gguf.GGUFWriter(tmp_path / "in.gguf", "llama")
    writer.data_alignment = 256
    for key, value in (gguf_metadata(TINY) | more).items():
        if key != "general.architecture":
            add_entry(writer, key, value)
    for name, (data, kind) in gguf_tensors(TINY, {}, {})[1].items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    quantized(tmp_path / "in.gguf", Job("int4", held_out_tokens=0), tmp_path / "out.gguf")
    quantized(tmp_path / "plain.gguf", Job("int4", held_out_tokens=0), tmp_path / "out-plain.gguf")

    found, expected = (open_checkpoint(str(tmp_path / name)) for name in ("out.gguf", "out-plain.gguf"))
    assert_same(found.tensors, expected.tensors)


def test_metadata_that_cannot_be_copied_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "in.gguf"
    write_gguf(path, metadata={"some.text": "zzzz"})
    path.write_bytes(path.read_bytes().replace(b"zzzz", b"\xff\xfe\xfd\xfc"))

    with pytest.raises(CheckpointError, match=r"in.gguf: its metadata cannot be copied"):
        quantized(path, Job("int4", held_out_tokens=0), tmp_path / "out.gguf")
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_that_does_not_do_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    told: list[str] = []
    job = Job("int4", "gptq", tmp_path / "none.txt")

    with pytest.raises(SetupError, match=r"none.txt cannot be read"):
        quantize(open_checkpoint("tiny-deepseek"), job, tmp_path / "out.gguf", lambda what, *_: told.append(what))
    assert told == []


@pytest.mark.parametrize("when", ["Quantising", "Reading the held-out text again"])
def test_whoever_is_interrupted_leaves_nothing(when: str, tmp_path: Path) -> None:
    def interrupt(what: str, _done: int, _total: int) -> None:
        if what == when:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize(open_checkpoint("tiny-deepseek"), Job("int4", held_out_tokens=50), tmp_path / "out.gguf", interrupt)
    assert list(tmp_path.iterdir()) == []


def list_of(value: Any) -> Any:
    return list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def test_of_a_file_of_several_widths_the_wider_tensors_change(tmp_path: Path) -> None:
    kinds = {"layers.0.q": GgmlType.Q4_0, "layers.0.k": GgmlType.Q5_1, "layers.0.v": GgmlType.BF16}
    write_gguf(tmp_path / "in.gguf", kinds=kinds)
    quantized(tmp_path / "in.gguf", Job("int8", held_out_tokens=0), tmp_path / "out.gguf")

    tensors = read_gguf(tmp_path / "out.gguf").tensors
    types = [tensors[f"blk.0.attn_{part}.weight"].type.name for part in "qkv"]
    assert types == ["Q4_0", "Q5_1", "Q8_0"]


@pytest.mark.parametrize(("kind", "to"), [(GgmlType.Q4_1, "int4"), (GgmlType.Q8_0, "int8"), (GgmlType.Q4_0, "int8")])
def test_a_model_that_is_as_narrow_already_is_refused(tmp_path: Path, kind: GgmlType, to: Width) -> None:
    values = write_gguf(tmp_path / "plain.gguf")
    kinds = {name: GgmlType.Q8_0 if name in ("embed", "head") else kind for name in values if values[name].ndim == 2}
    write_gguf(tmp_path / "in.gguf", kinds=kinds)

    with pytest.raises(UnsupportedModel, match=f"in.gguf: its matrices have {kind.name[1]} bits already"):
        quantized(tmp_path / "in.gguf", Job(to), tmp_path / "out.gguf")
    assert not (tmp_path / "out.gguf").exists()


def test_perplexity_is_measured_before_and_after(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    report = quantize(
        open_checkpoint("tiny-deepseek"),
        Job("int4", held_out_tokens=200),
        tmp_path / "out.gguf",
        lambda *step: told.append(step),
    )

    assert report.perplexity_before is not None
    assert report.perplexity_after is not None
    assert 0.0001 < abs(report.perplexity_after / report.perplexity_before - 1) < 0.03
    assert report.output_bytes < 0.75 * report.source_bytes
    assert [what for what, done, total in told if done == total] == [
        "Reading the held-out text",
        "Quantising",
        "Reading the held-out text again",
    ]


def test_rounding_that_is_given_a_text_says_that_it_reads_none(tmp_path: Path) -> None:
    write_gguf(tmp_path / "in.gguf")

    with pytest.raises(SetupError, match="looks at no text"):
        quantized(tmp_path / "in.gguf", Job("int4", calibration=tmp_path / "text.txt"), tmp_path / "out.gguf")


def write_rounded(model: Path, to: Width, output: Path, shard_bytes: int = 1 << 40) -> dict[str, Grid]:
    source = open_source(open_checkpoint(str(model)))
    plan = make_plan(source, to, is_scaling=False)
    with directory_output(output, source, plan, shard_bytes=shard_bytes) as out:
        for name, tensor in rounded(source, plan, lambda *_: None):
            out.write(name, tensor)
    return {name: target for name, target in plan.items() if isinstance(target, Grid)}


@pytest.mark.parametrize("to", WIDTHS)
def test_a_directory_holds_the_rounded_matrices_and_all_else_as_it_was(tmp_path: Path, to: Width) -> None:
    write_directory(tmp_path / "in", replace(TINY, qkv_bias=True, architecture="qwen2"), dtype="float16")
    (tmp_path / "in" / "generation_config.json").write_text("{}")
    (tmp_path / "in" / "chat_template.jinja").write_text("{{ messages }}")
    grids = write_rounded(tmp_path / "in", to, tmp_path / "out")

    before, after = load_file(tmp_path / "in" / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    for name, values in before.items():
        if name in grids:
            parts = {
                key.rpartition(".")[2]: part
                for key, part in after.items()
                if key.startswith(name.removesuffix("weight"))
            }
            found = dequantized({key: part for key, part in parts.items() if key != "bias"}, grids[name].bits)
            step = parts["weight_scale"].astype(np.float32).repeat(32, axis=1)
            assert (np.abs(found - values) <= 0.51 * step).all(), name
        else:
            assert np.array_equal(after[name], values), name
            assert after[name].dtype == values.dtype
    assert "model.layers.1.mlp.down_proj.weight" in grids
    assert not {"model.embed_tokens.weight", "lm_head.weight"} & grids.keys()
    for file in ("tokenizer.json", "generation_config.json", "chat_template.jinja"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "in" / file).read_bytes()
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert settings.pop("quantization_config")["ignore"] == ["lm_head"]
    assert settings == json.loads((tmp_path / "in" / "config.json").read_text())


def test_shards_are_bounded_and_the_index_says_what_is_where(tmp_path: Path) -> None:
    write_deepseek(tmp_path / "in", DEEPSEEK["V3 with MTP"], num_files=3)
    grids = write_rounded(tmp_path / "in", "int8", tmp_path / "whole")
    write_rounded(tmp_path / "in", "int8", tmp_path / "cut", shard_bytes=20_000)

    whole = load_file(tmp_path / "whole" / "model.safetensors")
    placed = json.loads((tmp_path / "cut" / "model.safetensors.index.json").read_text())["weight_map"]
    files = {name: load_file(tmp_path / "cut" / name) for name in set(placed.values())}
    assert set(placed) == set(whole)
    assert len(files) > 3
    assert all(np.array_equal(files[file][name], whole[name]) for name, file in placed.items())
    assert sum(len(file) for file in files.values()) == len(whole)
    assert all(sum(part.nbytes for part in file.values()) <= 20_000 for file in files.values())
    assert {"model.layers.1.mlp.experts.7.up_proj.weight", "model.layers.3.eh_proj.weight"} <= grids.keys()
    assert (
        "model.layers.1.mlp.gate"
        in json.loads((tmp_path / "cut" / "config.json").read_text())["quantization_config"]["ignore"]
    )


def test_experts_in_one_tensor_are_refused_by_name(tmp_path: Path) -> None:
    config = DEEPSEEK["MoE-16B"]
    fused = {
        f"model.layers.{layer}.mlp.experts.{part}_proj": np.zeros(shape, np.float32)
        for layer in (1, 2)
        for part, shape in (("gate_up", (4, 64, 64)), ("down", (4, 64, 32)))
    }
    single = [
        f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"
        for layer in (1, 2)
        for expert in range(4)
        for part in ("gate", "up", "down")
    ]
    write_deepseek(tmp_path / "in", config, extra=fused, left_out=tuple(single))

    with pytest.raises(UnsupportedModel, match=r"experts of 'layers.1.experts.gate' are one tensor"):
        quantized(tmp_path / "in", Job("int4"), tmp_path / "out")
