"""What weights are multiplied as, by how they are kept."""

from types import SimpleNamespace
from typing import cast

import pytest

from tailrace.serving.served import weight_numbers
from tailrace.weights.checkpoint import Checkpoint


@pytest.mark.parametrize(
    ("kept", "numbers"),
    [
        ({}, "int8"),
        ({"layers.0.router": "f32", "embed": "bf16"}, "int8"),
        ({"layers.0.mlp.down": "bf16", "layers.0.q": "bf16"}, "bf16"),
        ({"layers.0.mlp.down": "f16"}, "f32"),
    ],
)
def test_codes_are_multiplied_as_int8_and_floats_as_they_are(kept: dict[str, str], numbers: str) -> None:
    assert weight_numbers(cast("Checkpoint", SimpleNamespace(float_matrices=kept))) == numbers
