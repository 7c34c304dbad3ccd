"""The table of block types against the gguf package's."""

import gguf

from tailrace.weights.block_types import BLOCK_TYPES


def test_sizes_are_those_of_the_gguf_package() -> None:
    ours = {type_id: (block.name, block.num_values, block.num_bytes) for type_id, block in BLOCK_TYPES.items()}
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert {type_id: theirs[type_id] for type_id in ours} == ours
