"""Small matrices as AutoGPTQ and AutoAWQ pack them, and what these packages read out of them:

    python scripts/oracle/grouped_layouts.py

Needs auto-gptq 0.7.1 and autoawq 0.2.9, both installed with --no-deps (autoawq with --no-build-isolation too), beside
torch, transformers and accelerate (requirements.txt). Shares no code with Tailrace, on purpose.
"""

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import save_file

DATA = Path(__file__).parents[2] / "tests" / "unit" / "weights" / "quantized" / "data"
MODULE = "model.layers.0.mlp.up_proj"
OUTPUTS, INPUTS = 32, 96


@dataclass(frozen=True)
class Case:
    """How a matrix is quantised. In a shuffled one, inputs are given to groups at random."""

    method: str
    bits: int
    group_size: int
    symmetric: bool
    shuffled: bool = False

    @property
    def name(self) -> str:
        words = [self.method, f"{self.bits}bit", f"g{self.group_size}", "sym" if self.symmetric else "asym"]
        return "-".join([*words, "shuffled"] if self.shuffled else words)

    @property
    def settings(self) -> dict[str, Any]:
        common = {"quant_method": self.method, "bits": self.bits, "group_size": self.group_size}
        if self.method == "awq":
            return common | {"zero_point": True, "version": "gemm", "modules_to_not_convert": None}
        return common | {"sym": self.symmetric, "desc_act": self.shuffled, "checkpoint_format": "gptq"}


def cases() -> Iterator[Case]:
    for group_size in (32, -1):
        yield Case("awq", 4, group_size, symmetric=False)
        for bits in (2, 3, 4, 8):
            yield Case("gptq", bits, group_size, symmetric=group_size == 32)
    for bits in (3, 4):
        yield Case("gptq", bits, 32, symmetric=False, shuffled=True)


def submodule(name: str) -> ModuleType:
    """A module of a package whose own start would load kernels and all that it can quantise."""
    parents = name.split(".")[:-1]
    if parents[0] not in sys.modules:
        spec = find_spec(parents[0])
        assert spec is not None
        assert spec.submodule_search_locations
        _place_package(parents[0], Path(next(iter(spec.submodule_search_locations))))
    for depth in range(1, len(parents)):
        inner, outer = ".".join(parents[: depth + 1]), sys.modules[".".join(parents[:depth])]
        if inner not in sys.modules:
            _place_package(inner, Path(outer.__path__[0]) / parents[depth])
    return importlib.import_module(name)


def _place_package(name: str, place: Path) -> None:
    package = ModuleType(name)
    package.__path__ = [str(place)]
    sys.modules[name] = package


@dataclass(frozen=True)
class Matrix:
    """What is packed: [out, in] values that lie on the levels of their groups."""

    weight: torch.Tensor
    scales: torch.Tensor  # [out, groups]
    zeros: torch.Tensor
    groups: torch.Tensor  # of each input


def matrix(case: Case) -> Matrix:
    torch.manual_seed(len(case.name) + case.bits)
    size = INPUTS if case.group_size == -1 else case.group_size
    groups = torch.arange(INPUTS) // size
    if case.shuffled:
        groups = groups[torch.randperm(INPUTS)]
    shape, levels = (OUTPUTS, INPUTS // size), 1 << case.bits
    scales = (torch.rand(shape) + 0.1).half().float() / 8
    # No zero point of zero, which AutoGPTQ packs wrongly.
    zeros = torch.full(shape, levels / 2) if case.symmetric else torch.randint(1, levels, shape).float()
    codes = torch.randint(0, levels, (OUTPUTS, INPUTS)).float()
    return Matrix((codes - zeros[:, groups]) * scales[:, groups], scales, zeros, groups)


def as_linear(weight: torch.Tensor) -> torch.nn.Linear:
    linear = torch.nn.Linear(INPUTS, OUTPUTS, bias=False)
    linear.weight.data = weight
    return linear


def gptq(case: Case, made: Matrix) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The parts, and the values that a layer of AutoGPTQ multiplies with."""
    kernel = submodule("auto_gptq.nn_modules.qlinear.qlinear_cuda")
    kernel._autogptq_cuda_available = False
    layer = kernel.QuantLinear(case.bits, case.group_size, INPUTS, OUTPUTS, bias=False, weight_dtype=torch.float32)
    layer.pack(as_linear(made.weight), made.scales, made.zeros.clone(), made.groups.int())
    values = layer(torch.eye(INPUTS)).T
    parts = {name: getattr(layer, name) for name in ("qweight", "qzeros", "scales", "g_idx")}
    return parts | {"scales": layer.scales.half()}, values


def awq(case: Case, made: Matrix) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The parts, and the values that AutoAWQ reads back."""
    kernel = submodule("awq.modules.linear.gemm")
    size = INPUTS if case.group_size == -1 else case.group_size
    scales, zeros = made.scales.T.contiguous(), made.zeros.T.contiguous()
    layer = kernel.WQLinear_GEMM.from_linear(as_linear(made.weight), case.bits, size, scales=scales, zeros=zeros)
    read = submodule("awq.utils.packing_utils").dequantize_gemm
    values = read(layer.qweight, layer.qzeros, layer.scales.float(), case.bits, size).T
    return {name: getattr(layer, name) for name in ("qweight", "qzeros", "scales")}, values


def write(target: Path) -> None:
    settings: dict[str, Mapping[str, Any]] = {}
    tensors: dict[str, torch.Tensor] = {}
    for case in cases():
        made = matrix(case)
        parts, values = (awq if case.method == "awq" else gptq)(case, made)
        assert torch.allclose(values, made.weight, atol=1e-5), case.name
        settings[case.name] = case.settings
        tensors |= {f"{case.name}/{MODULE}.{part}": tensor.contiguous() for part, tensor in parts.items()}
        tensors[f"{case.name}/expected"] = values.float().contiguous()
    target.mkdir(parents=True, exist_ok=True)
    (target / "grouped.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    save_file(tensors, target / "grouped.safetensors")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    write(DATA)
