"""What keys and values depend on besides tokens: blocks that could differ in a bit never have one name."""

import pytest

from tailrace.app import plan_model
from tailrace.config import EngineConfig, KvCacheDtype
from tailrace.ops.cpu.backend import ISA_VARIABLE, supported_isas
from tailrace.weights.load import open_checkpoint


def fingerprint(
    model: str = "tiny-deepseek",
    backend: str = "cpu",
    kv_cache_dtype: KvCacheDtype = "f32",
    max_model_tokens: int = 512,
) -> bytes:
    config = EngineConfig(
        backend, kv_cache_dtype=kv_cache_dtype, max_model_tokens=max_model_tokens, kv_memory_bytes=64 << 20
    )
    return plan_model(open_checkpoint(model), config).everything.target


def test_engines_with_one_model_on_like_machines_share_blocks() -> None:
    assert fingerprint() == fingerprint(max_model_tokens=256)


@pytest.mark.parametrize("other", [{"model": "default"}, {"backend": "reference"}, {"kv_cache_dtype": "bf16"}])
def test_another_model_back_end_or_format_has_names_of_its_own(other: dict[str, str]) -> None:
    assert fingerprint(**other) != fingerprint()  # type: ignore[arg-type]  # a dtype is a literal


def test_instruction_sets_share_nothing_since_they_round_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for isa in supported_isas():
        monkeypatch.setenv(ISA_VARIABLE, isa)
        found.add(fingerprint())
    assert len(found) == len(supported_isas()) > 1
