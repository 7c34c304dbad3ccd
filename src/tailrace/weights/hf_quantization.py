"""How the first writers of GPTQ and AWQ left it to other files than config.json to say how a model was quantised."""

from collections.abc import Mapping
from pathlib import Path

from tailrace.weights.fields import Fields
from tailrace.weights.hf_text import read_json
from tailrace.weights.scheme import SETTINGS
from tailrace.weights.settings_file import is_there

__all__ = ["read_settings"]

_METHODS: Mapping[str, str] = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
_RENAMED: Mapping[str, str] = {"w_bit": "bits", "q_group_size": "group_size"}


def read_settings(directory: Path) -> Fields:
    """config.json, with what it does not say of how the model was quantised. Raises CheckpointError."""
    config = read_json(directory / "config.json")
    if config.has(SETTINGS):
        return config
    for name, method in _METHODS.items():
        if is_there(directory / name):
            found = {_RENAMED.get(key, key): value for key, value in read_json(directory / name).values.items()}
            return Fields(f"{config.source} with {name}", {**config.values, SETTINGS: {"quant_method": method} | found})
    return config
