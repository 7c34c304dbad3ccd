"""Directories, from one to the other: what is written is what the loader reads."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from tailrace.models.registry import build_program
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.ops.reference import ReferenceBackend
from tailrace.quantizing.plan import Width
from tailrace.quantizing.quantize import Job, Method
from tailrace.quantizing.source import open_source
from tailrace.weights.load import open_checkpoint
from tailrace.weights.safetensors import read_safetensors
from tests.support.steps import limits, teacher_forced
from tests.unit.quantizing.test_pack_quantized import dequantized
from tests.unit.quantizing.test_quantize import quantized
from tests.unit.weights.deepseek_files import DEEPSEEK, write_deepseek
from tests.unit.weights.model_files import TOKENS, write_directory

WIDTHS: tuple[Width, ...] = ("int8", "int4")
IDS = [1, 17, 40, 3, 3, 29, 8, 11, 25, 46, 2, 31]


@pytest.mark.parametrize("to", WIDTHS)
@pytest.mark.parametrize("name", ["MoE-16B", "V2", "V3 with MTP", "V3.2"])
def test_the_loader_reads_what_was_written_bit_for_bit(name: str, to: Width, tmp_path: Path) -> None:
    write_deepseek(tmp_path / "in", DEEPSEEK[name])
    quantized(tmp_path / "in", Job(to, held_out_tokens=0), tmp_path / "out")

    source = open_source(open_checkpoint(str(tmp_path / "out")))
    stored = {key: part.bits() for key, part in read_safetensors(tmp_path / "out" / "model.safetensors").items()}
    compared = 0
    for module in (key.removesuffix(".weight_packed") for key in stored if key.endswith(".weight_packed")):
        parts = {key.rpartition(".")[2]: part for key, part in stored.items() if key.rpartition(".")[0] == module}
        found = source.tensors[f"{module}.weight"]
        assert np.array_equal(found.packed().dequantize(), dequantized(parts, 8 if to == "int8" else 4)), module
        assert found.format == ("q8" if to == "int8" else "q4")
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("method", ["rtn", "awq", "gptq"])
def test_what_was_written_is_served_and_its_cost_measured(method: Method, tmp_path: Path) -> None:
    letters = Tokenizer(BPE({text: number for number, text in enumerate(TOKENS)}, []))  # other characters are dropped
    letters.pre_tokenizer, letters.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    tokenizer = json.loads(letters.to_str())
    write_directory(tmp_path / "in", files={"tokenizer.json": tokenizer})
    report = quantized(tmp_path / "in", Job("int4", method, held_out_tokens=100), tmp_path / "out")

    assert report.held_out_tokens == 100
    assert report.perplexity_before != report.perplexity_after
    assert json.loads((tmp_path / "out" / "tokenizer.json").read_text()) == tokenizer
    checkpoint, of = open_checkpoint(str(tmp_path / "out")), limits(block_tokens=16)
    program = build_program(checkpoint.config)
    computed = [
        teacher_forced(backend.load(program, checkpoint.tensors, of), of, IDS, chunk_tokens=len(IDS))
        for backend in (ReferenceBackend(), CpuBackend(kv_format="f32"))
    ]
    assert np.abs(computed[0] - computed[1]).max() < 0.05 * np.abs(computed[0]).max()
