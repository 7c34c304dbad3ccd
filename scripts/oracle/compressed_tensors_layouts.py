"""Small matrices in every layout of compressed-tensors, written and read back by that package, and all 8-bit floats:

    python scripts/oracle/compressed_tensors_layouts.py

Needs compressed-tensors 0.20.1 beside torch (requirements.txt). Shares no code with Tailrace, on purpose.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert import FP8BlockDequantizer
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, QuantizationStatus
from safetensors.torch import save_file

DATA = Path(__file__).parents[2] / "tests" / "unit" / "weights" / "quantized" / "data"
MODULE = "model.layers.0.mlp.up_proj"
FLOATS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
E4M3 = torch.float8_e4m3fn


@dataclass(frozen=True)
class Case:
    """One matrix of `shape`, how it is quantised, and the dtype of its scales before they are compressed."""

    format: str
    shape: tuple[int, int]
    args: Mapping[str, Any]
    dtype: str = "bfloat16"
    name: str = ""
    divisor: float | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    """Sizes that fill no word, no byte and no block; of each width of integers every strategy."""
    dtypes = list(FLOATS)
    for bits in range(2, 9):
        for symmetric in (True, False):
            args = {"num_bits": bits, "type": "int", "symmetric": symmetric}
            kind = f"int{bits}-{'sym' if symmetric else 'asym'}"
            dtype = dtypes[(bits + symmetric) % 3]
            group = {"strategy": "group", "group_size": 32}
            yield Case("pack-quantized", (33, 64), args | group, dtype, f"{kind}-group")
            yield Case("pack-quantized", (5, 45), args | {"strategy": "channel"}, dtypes[bits % 3], f"{kind}-channel")
            yield Case("pack-quantized", (3, 50), args | {"strategy": "tensor"}, dtype, f"{kind}-tensor")
    odd = {"num_bits": 4, "type": "int", "symmetric": False, "strategy": "group", "group_size": 20}
    yield Case("pack-quantized", (33, 60), odd, "float16", "int4-asym-odd-group")
    for symmetric in (True, False):
        byte = {"num_bits": 8, "type": "int", "symmetric": symmetric}
        kind = f"byte-{'sym' if symmetric else 'asym'}"
        yield Case("int-quantized", (7, 64), byte | {"strategy": "channel"}, "bfloat16", f"{kind}-channel")
        yield Case("int-quantized", (3, 45), byte | {"strategy": "tensor"}, "float32", f"{kind}-tensor")
        yield Case("int-quantized", (4, 96), byte | {"strategy": "group", "group_size": 48}, "float16", f"{kind}-group")
        blocks = {"strategy": "block", "block_structure": [8, 32]}
        yield Case("int-quantized", (19, 80), byte | blocks, "float32", f"{kind}-block")
    eight = {"num_bits": 8, "type": "float", "symmetric": True}
    yield Case("float-quantized", (5, 45), eight | {"strategy": "tensor"}, "float32", "e4m3-tensor")
    yield Case("float-quantized", (7, 33), eight | {"strategy": "channel"}, "bfloat16", "e4m3-channel")
    blocks = {"strategy": "block", "block_structure": [16, 32]}
    yield Case("float-quantized", (37, 70), eight | blocks, "float32", "e4m3-block")
    yield Case("float-quantized", (3, 40), eight | {"strategy": "group", "group_size": 20}, "bfloat16", "e4m3-group")
    mx8 = eight | {"strategy": "group", "group_size": 32, "scale_dtype": torch.uint8}
    yield Case("mxfp8-quantized", (5, 96), mx8, "float32", "mxfp8")
    four = {"num_bits": 4, "type": "float", "symmetric": True}
    nv = four | {"strategy": "tensor_group", "group_size": 16, "scale_dtype": E4M3}
    yield Case("nvfp4-pack-quantized", (5, 48), nv, "float32", "nvfp4", divisor=2688.7)
    mx4 = four | {"strategy": "group", "group_size": 32, "scale_dtype": torch.uint8}
    yield Case("mxfp4-pack-quantized", (7, 96), mx4, "float32", "mxfp4")


def blocks_of(case: Case) -> tuple[int, ...]:
    """The shape of a matrix's scales."""
    rows, columns = case.shape
    match case.args["strategy"]:
        case "tensor":
            return (1,)
        case "channel":
            return rows, 1
        case "block":
            height, width = case.args["block_structure"]
            return -(-rows // height), -(-columns // width)
        case _:
            return rows, columns // case.args["group_size"]


def parts_of(case: Case) -> dict[str, torch.Tensor]:
    """Values from one end of the codes to the other, and somewhat beyond, with scales and zeros drawn at random."""
    bits, is_integer = case.args["num_bits"], case.args["type"] == "int"
    largest = 2.0 ** (bits - 1) if is_integer else {8: 448.0, 4: 6.0}[bits]
    scale = (torch.rand(blocks_of(case)) + 0.5) * 0.02
    if case.args.get("scale_dtype") is torch.uint8:
        scale = 2.0 ** torch.randint(-9, 3, blocks_of(case))
    if case.divisor is not None:
        scale = (scale * case.divisor).to(E4M3).float()
    scale = scale.to(FLOATS[case.dtype])
    mean = float(scale.float().mean()) / (case.divisor or 1.0)
    parts = {"weight": (torch.randn(case.shape) * largest * mean * 0.6).to(FLOATS[case.dtype]), "weight_scale": scale}
    if case.divisor is not None:
        parts["weight_global_scale"] = torch.tensor([case.divisor])
    if is_integer and not case.args["symmetric"]:
        half = 1 << (bits - 1)
        parts["weight_zero_point"] = torch.randint(-half, half, blocks_of(case), dtype=torch.int8)
    return parts


def config_of(case: Case) -> dict[str, Any]:
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**case.args), format=case.format)
    config = QuantizationConfig(
        config_groups={"group_0": scheme},
        format=case.format,
        quantization_status=QuantizationStatus.COMPRESSED,
        ignore=["lm_head"],
    )
    return json.loads(config.model_dump_json())


def deepseek_blocks(shape: tuple[int, int]) -> dict[str, torch.Tensor]:
    """A matrix as DeepSeek publishes them, and what that package's converter makes of it."""
    scales = torch.rand([-(-size // 128) for size in shape]) * 0.01
    codes = (torch.randn(shape) * 100).clamp(-448, 448).to(E4M3)
    stored = {f"{MODULE}.weight": codes, f"{MODULE}.weight_scale_inv": scales}
    converter = FP8BlockDequantizer(targets=[MODULE], weight_block_size=(128, 128), dtype=torch.float32)
    return stored | {"expected": converter.process(dict(stored))[f"{MODULE}.weight"]}


def main() -> None:
    torch.manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    configs: dict[str, dict[str, Any]] = {}
    for case in cases():
        configs[case.name] = config_of(case)
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**case.args))
        compressor = BaseCompressor.get_value_from_registry(case.format)
        compressed = compressor.compress(parts_of(case), scheme)
        read_back = compressor.decompress(dict(compressed), scheme)["weight"]
        tensors |= {f"{case.name}/{MODULE}.{part}": tensor.contiguous() for part, tensor in compressed.items()}
        tensors[f"{case.name}/expected"] = read_back.contiguous()
    for name, shape in {"deepseek-ragged": (130, 131), "deepseek-narrow": (257, 9), "deepseek-low": (5, 300)}.items():
        tensors |= {f"{name}/{part}": tensor.contiguous() for part, tensor in deepseek_blocks(shape).items()}
    tensors["e4m3/expected"] = torch.arange(256, dtype=torch.uint8).view(E4M3).float()
    tensors["e8m0/expected"] = torch.arange(256, dtype=torch.uint8).view(torch.float8_e8m0fnu).float()
    DATA.mkdir(exist_ok=True)
    save_file(tensors, DATA / "compressed_tensors.safetensors")
    lines = (f"{json.dumps(name)}: {json.dumps(config)}" for name, config in configs.items())
    (DATA / "compressed_tensors.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
