from pathlib import Path

import pytest

from benchmarks.loading.first_token import decoding, forget, packed_expert_bytes
from tailrace.weights.tiny_deepseek import tiny_deepseek_path


def test_experts_take_what_their_matrices_do() -> None:
    matrix = 2048 * 1408 // 32 * 20  # groups of 32 codes of 4 bits, with two numbers of 16 bits

    assert packed_expert_bytes(3) == 2 * 64 * 3 * matrix


@pytest.mark.parametrize("max_bytes", [1 << 30, 64 << 10])
def test_decoding_tells_how_often_experts_were_there(max_bytes: int) -> None:
    lazily = decoding(tiny_deepseek_path(), "lazily", 16, max_bytes)
    with_all = decoding(tiny_deepseek_path(), "all first", 16, None)

    assert with_all.hit_share is None
    assert lazily.hit_share is not None
    assert (lazily.hit_share > 0.5) == (max_bytes == 1 << 30)
    assert lazily.tokens_per_s > 0


def test_a_file_may_be_forgotten_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"weights")
    forget(tmp_path / "model")

    assert (tmp_path / "model").read_bytes() == b"weights"
