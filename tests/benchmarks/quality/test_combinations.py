import pytest

from benchmarks.quality.combinations import COMBINATIONS, kv_of, weights_of
from benchmarks.quality.variants import AS_SHIPPED
from tailrace.weights.load import open_checkpoint


@pytest.mark.parametrize("model", COMBINATIONS)
def test_every_combination_is_one_that_the_model_can_be_served_in(model: str) -> None:
    for words in COMBINATIONS[model]:
        if words != AS_SHIPPED:
            open_checkpoint(model, quantize=words)


def test_weights_and_keys_are_told_apart() -> None:
    assert (weights_of("int8,kv=fp8_e4m3"), kv_of("int8,kv=fp8_e4m3")) == ("int8", "fp8_e4m3")
    assert (weights_of(AS_SHIPPED), kv_of(AS_SHIPPED)) == (AS_SHIPPED, "bf16")
    assert weights_of("kv=int8") == AS_SHIPPED
