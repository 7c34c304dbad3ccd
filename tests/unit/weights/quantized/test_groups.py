"""The settings of compressed-tensors: who is in which group, and what is refused by name."""

from typing import Any

import pytest

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.compressed import read_compressed
from tailrace.weights.quantized.groups import read_groups, read_targets
from tests.unit.weights.model_files import TINY
from tests.unit.weights.quantized.compressed_files import LAYOUTS, compressed

INT4: dict[str, Any] = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}


def config(**weights: Any) -> Fields:
    group = {"targets": ["Linear"], "weights": INT4 | weights}
    return Fields("config.json", {"format": "pack-quantized", "config_groups": {"group_0": group}})


@pytest.mark.parametrize(
    ("targets", "inside", "outside"),
    [
        (["model.layers.1.mlp.up_proj"], ["model.layers.1.mlp.up_proj"], ["model.layers.1.mlp.up_proj2", "a"]),
        (["re:.*up_proj$"], ["model.layers.1.mlp.up_proj"], ["model.layers.1.mlp.up_proj2"]),
        (["re:up_proj"], ["up_proj.x"], ["model.layers.1.mlp.up_proj"]),
        (["Linear"], ["model.layers.1.mlp.up_proj", "lm_head"], ["model.embed_tokens"]),
        (["Embedding"], ["model.embed_tokens"], ["lm_head"]),
        ([], [], ["lm_head"]),
        (None, [], ["lm_head"]),
    ],
)
def test_modules_are_named_one_by_one_by_pattern_or_by_class(
    targets: object, inside: list[str], outside: list[str]
) -> None:
    found = read_targets(Fields("config.json", {"targets": targets}), "targets")
    assert [name in found for name in inside + outside] == [True] * len(inside) + [False] * len(outside)


@pytest.mark.parametrize(
    ("weights", "strategy", "block"),
    [
        ({}, "group", (1, 32)),
        ({"strategy": None}, "group", (1, 32)),
        ({"strategy": None, "group_size": -1}, "channel", (1, 64)),
        ({"strategy": None, "group_size": None}, "tensor", (6, 64)),
        ({"strategy": "CHANNEL", "group_size": None}, "channel", (1, 64)),
    ],
)
def test_what_is_left_out_of_the_settings_is_as_the_package_has_it(
    weights: dict[str, Any], strategy: str, block: tuple[int, int]
) -> None:
    (group,) = read_groups(config(**weights)).groups
    assert (group.strategy, group.is_symmetric, group.bits) == (strategy, True, 4)
    assert group.block_of((6, 64), "somewhere") == block


@pytest.mark.parametrize("structure", [[16, 32], "16x32"])
def test_blocks_may_be_written_in_two_ways(structure: object) -> None:
    weights = {"type": "float", "num_bits": 8, "strategy": "block", "block_structure": structure, "group_size": None}
    settings = config(**weights)
    (group,) = read_groups(Fields("config.json", {**settings.values, "format": "naive-quantized"})).groups
    assert (group.format, group.block_of((20, 70), "somewhere")) == ("float-quantized", (16, 32))


@pytest.mark.parametrize(
    "structure", [None, [], [16], [0, 1], [1, -1], [True, 1], [1 << 21, 1], "16", "x", "1x2x3", "ax1"]
)
def test_blocks_that_are_none_are_refused(structure: object) -> None:
    weights = {"type": "float", "num_bits": 8, "strategy": "block", "block_structure": structure}
    settings = config(**weights)
    with pytest.raises(CheckpointError, match=r"weights: block_structure .* it must be two integers between 1 and"):
        read_groups(Fields("config.json", {**settings.values, "format": "float-quantized"}))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"transform_config": {"config_groups": {"R1": {}}}}, "transform_config is not supported"),
        ({"moe_sparsity_config": {"method": "prune"}}, "moe_sparsity_config is not supported"),
        ({"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config: format 'sparse-24-bitmask' is not"),
        ({"format": "marlin-24"}, "config_groups: group_0: format 'marlin-24' is not supported; supported: pack-quant"),
        ({"format": "mixed-precision"}, "config_groups: group_0: format 'mixed-precision' is not supported"),
        ({"format": "float-quantized"}, "weights: int of 4 bits by group is not supported in format 'float-quantized'"),
    ],
)
def test_what_would_change_answers_is_refused_by_name(changed: dict[str, Any], reason: str) -> None:
    quantization = compressed(TINY, LAYOUTS["int4"]).quantization
    group = {key: value for key, value in quantization["config_groups"]["group_0"].items() if key != "format"}
    settings = quantization | {"config_groups": {"group_0": group}} | changed
    with pytest.raises(UnsupportedModel, match=rf"config\.json: .*{reason}"):
        read_compressed(Fields("config.json", settings))


@pytest.mark.parametrize(
    ("weights", "error", "reason"),
    [
        ({"num_bits": 1}, UnsupportedModel, "int of 1 bits by group is not supported in format"),
        ({"num_bits": 9}, UnsupportedModel, "int of 9 bits"),
        ({"num_bits": 0}, CheckpointError, "weights: num_bits is 0, it must be between 1"),
        ({"num_bits": "4"}, CheckpointError, "weights: num_bits is '4', it must be an integer"),
        ({"type": "float"}, UnsupportedModel, "float of 4 bits by group is not supported in format 'pack-quantized'"),
        ({"strategy": "token"}, UnsupportedModel, "strategy 'token' is not supported; supported: tensor, channel"),
        ({"strategy": "block"}, UnsupportedModel, "int of 4 bits by block is not supported in format"),
        ({"group_size": 0}, CheckpointError, "weights: group_size is 0, it must be between 1 and 1048576"),
        ({"group_size": None}, CheckpointError, "weights: group_size is missing"),
        ({"group_size": 1 << 40}, CheckpointError, "weights: group_size is 1099511627776, it must be between"),
        ({"symmetric": 1}, CheckpointError, "weights: symmetric is 1, it must be true or false"),
        ({"type": 4}, CheckpointError, "weights: type is 4, it must be a string"),
    ],
)
def test_weights_that_no_format_has_are_refused_by_name(
    weights: dict[str, Any], error: type[ModelError], reason: str
) -> None:
    quantization = compressed(TINY, LAYOUTS["int4"]).quantization
    quantization["config_groups"]["group_0"]["weights"] = {**LAYOUTS["int4"].weights, **weights}
    with pytest.raises(error, match=rf"config\.json: config_groups: group_0: .*{reason}"):
        read_compressed(Fields("config.json", quantization))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"config_groups": []}, r"config_groups is \[\], it must be a table"),
        ({"config_groups": {"W4A16": ["Linear"]}}, r"config_groups: W4A16 is \['Linear'\], it must be a table"),
        (
            {"config_groups": {str(count): {} for count in range(65)}},
            "config_groups .*, it must be a table of at most 64",
        ),
        ({"ignore": "lm_head"}, "ignore is 'lm_head', it must be a list of names"),
        ({"ignore": ["a", 1]}, r"ignore is \['a', 1\], it must be a list of names"),
        ({"ignore": [f"re:{count}" for count in range(257)]}, "ignore .*, it must be a list of at most 256 patterns"),
        ({"ignore": ["re:("]}, r"ignore: pattern '\(' is not one that we can match"),
        ({"sparsity_config": "2:4"}, "sparsity_config is '2:4', it must be a table"),
    ],
)
def test_settings_that_are_none_are_refused_by_name(changed: dict[str, Any], reason: str) -> None:
    quantization = compressed(TINY, LAYOUTS["int4"]).quantization | changed
    with pytest.raises(ModelError, match=rf"config\.json: .*{reason}"):
        read_compressed(Fields("config.json", quantization))
