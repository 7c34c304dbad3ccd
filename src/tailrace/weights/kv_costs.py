"""What each KV format costs a model: bytes for a token, and perplexity where that was measured.

kv_quality.json holds the measurements; `python -m benchmarks.quality --record` writes it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tailrace.ops.api import KvFormat
from tailrace.ops.load import load_backend
from tailrace.ops.program import Program

__all__ = ["QUALITY_FILE", "KvCost", "kv_costs"]

QUALITY_FILE = Path(__file__).with_name("kv_quality.json")

_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class KvCost:
    kv_cache_dtype: KvFormat
    bytes_per_token: int  # as they lie in memory: heads padded, scales included
    perplexity_change: float | None  # against keys and values in f32; None: never measured on this model


def kv_costs(program: Program, fingerprint: str, quality_file: Path = QUALITY_FILE) -> tuple[KvCost, ...]:
    """Of each format that the fastest back end has; `fingerprint` says which model the program is of."""
    changes = _measured_changes(fingerprint, quality_file)
    return tuple(
        KvCost(kv_format, _bytes_per_token(program, kv_format), changes.get(kv_format))
        for kv_format in get_args(KvFormat)
    )


def _bytes_per_token(program: Program, kv_format: KvFormat) -> int:
    return load_backend(kv_format=kv_format).kv_bytes_per_block(program, _BLOCK_TOKENS) // _BLOCK_TOKENS


def _measured_changes(fingerprint: str, quality_file: Path) -> Mapping[str, float]:
    measured = json.loads(quality_file.read_text())
    if measured["fingerprint"] != fingerprint:
        return {}
    perplexities: dict[str, float] = {line["kv"]: line["perplexity"] for line in measured["lines"]}
    return {kv: perplexity / perplexities["f32"] - 1 for kv, perplexity in perplexities.items()}
