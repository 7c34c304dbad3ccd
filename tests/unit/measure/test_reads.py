from dataclasses import replace

import pytest

from tailrace.measure.reads import read_bytes
from tailrace.models.registry import build_program
from tailrace.ops.program import Program
from tailrace.weights.synthetic_checkpoint import packed_bytes
from tailrace.weights.synthetic_shapes import SHAPES


def sizes(program: Program) -> dict[str, int]:
    return packed_bytes(program, "int4")


def test_a_dense_model_reads_all_but_most_of_its_embedding() -> None:
    program = build_program(SHAPES["deepseek-coder-1.3b"])
    bytes_of = sizes(program)
    embedding = bytes_of["embed"]
    assert read_bytes(program, bytes_of, 8) == pytest.approx(sum(bytes_of.values()) - embedding + 8 * embedding / 32256)


def test_a_tied_embedding_is_read_as_the_head() -> None:
    program = build_program(replace(SHAPES["deepseek-coder-1.3b"], tie_word_embeddings=True))
    bytes_of = sizes(program)
    assert read_bytes(program, bytes_of, 1) == sum(bytes_of.values())


@pytest.mark.parametrize(("num_sequences", "share"), [(1, 6 / 64), (8, 1 - (58 / 64) ** 8)])
def test_of_experts_those_are_read_that_some_token_takes(num_sequences: int, share: float) -> None:
    program = build_program(SHAPES["deepseek-v2-lite"])
    bytes_of = sizes(program)
    experts = {name: size for name, size in bytes_of.items() if ".experts." in name}
    rest = sum(size for name, size in bytes_of.items() if name not in experts and name != "embed")
    assert len(experts) == 26 * 3
    assert read_bytes(program, bytes_of, num_sequences) == pytest.approx(
        rest + share * sum(experts.values()) + num_sequences * bytes_of["embed"] / 102400
    )
