"""What GPTQ's settings say of each module."""

from typing import Any

import pytest

from tailrace.errors import CheckpointError, ModelError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.gptq_settings import GptqSettings, ModuleSettings

SETTINGS: dict[str, Any] = {"bits": 4, "group_size": 128, "desc_act": False, "sym": True}
USUAL = ModuleSettings(4, 128, is_symmetric=True, is_reordered=False)
Q, DOWN = "model.layers.1.self_attn.q_proj", "model.layers.11.mlp.down_proj"


def read(**settings: Any) -> GptqSettings:
    return GptqSettings.read(Fields("config.json", SETTINGS | settings))


@pytest.mark.parametrize("dynamic", [None, {}])
def test_without_rules_modules_are_alike(dynamic: dict[str, Any] | None) -> None:
    settings = read(dynamic=dynamic)
    assert settings.of_module(Q) == settings.of_module("lm_head") == USUAL


def test_what_is_not_said_is_as_writers_leave_it_out() -> None:
    settings = GptqSettings.read(Fields("config.json", {"bits": 4}))
    assert (settings.usual, settings.is_second) == (USUAL, False)


@pytest.mark.parametrize(
    ("rules", "module", "expected"),
    [
        ({r".*\.11\..*down.*": {"bits": 8, "group_size": 64}}, DOWN, ModuleSettings(8, 64, True, False)),
        ({r".*\.11\..*down.*": {"bits": 8, "group_size": 64}}, Q, USUAL),
        ({r"+:.*q_proj": {"sym": False, "desc_act": True}}, Q, ModuleSettings(4, 128, False, True)),
        ({r"-:.*q_proj": {}}, Q, None),
        ({r"-:.*q_proj": {"bits": 8}}, Q, None),
        ({r"-:.*q_proj": None}, Q, None),
        ({r"-:.*q_proj": {}}, DOWN, USUAL),
        # The first that matches decides, from the beginning of a name on, and not to its end.
        ({r".*proj": {"bits": 3}, r"-:.*q_proj": {}}, Q, ModuleSettings(3, 128, True, False)),
        ({r"-:.*q_proj": {}, r".*proj": {"bits": 3}}, Q, None),
        ({r"model\.layers\.1": {"bits": 2}}, DOWN, ModuleSettings(2, 128, True, False)),
        ({r"layers\.1": {"bits": 2}}, Q, USUAL),
    ],
)
def test_the_first_rule_that_matches_decides(
    rules: dict[str, Any], module: str, expected: ModuleSettings | None
) -> None:
    assert read(dynamic=rules).of_module(module) == expected


@pytest.mark.parametrize(
    ("dynamic", "error", "reason"),
    [
        ([], CheckpointError, r"config\.json: dynamic is \[\], it must be a table"),
        ({"q": 8}, CheckpointError, r"config\.json: dynamic: 'q' must be a table of settings"),
        ({"q": {"bits": "8"}}, CheckpointError, r"config\.json: dynamic: 'q': bits is '8', it must be an integer"),
        ({"q": {"bits": 7}}, UnsupportedModel, r"config\.json: dynamic: 'q': GPTQ of 7 bits is not supported"),
        ({"(?=q)": {}}, UnsupportedModel, r"config\.json: dynamic: '\(\?=q\)': pattern '\(\?=q\)'"),
        ({str(rule): {} for rule in range(1025)}, UnsupportedModel, "dynamic: 1025 rules are too many; at most 1024"),
    ],
)
def test_rules_that_cannot_be_are_named(dynamic: object, error: type[ModelError], reason: str) -> None:
    with pytest.raises(error, match=reason):
        read(dynamic=dynamic)


def test_a_pattern_that_takes_long_elsewhere_takes_no_time() -> None:
    assert read(dynamic={r"-:([\w.]+)+!": {}}).of_module("a." * 500) == USUAL
