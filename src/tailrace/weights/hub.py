"""Models by hub id: downloaded with huggingface_hub, where that is installed, into its own cache."""

import re
from pathlib import Path

from tailrace.errors import SetupError
from tailrace.weights.hf_config import read_config
from tailrace.weights.hf_text import read_json

__all__ = ["hub_directory", "is_hub_id"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[\w./-]{1,100})?")
_CONFIG = "config.json"
_WANTED = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja"]


def is_hub_id(model: str) -> bool:
    """Whether `model` reads like owner/name, or owner/name@revision."""
    return _HUB_ID.fullmatch(model) is not None


def hub_directory(model: str) -> Path:
    """The local directory of a hub model, downloaded first where it is missing.

    Its config is fetched before all else: weights may be hundreds of gigabytes, and the model one that we cannot run.
    Raises UnsupportedModel or CheckpointError for what the config says, SetupError where there is nothing to be had.
    """
    config = _fetched(model, [_CONFIG]) / _CONFIG
    if not config.is_file():
        raise SetupError(
            f"model {model!r} has no {_CONFIG} on the hub: name one with safetensors files, or download a "
            "GGUF file and name that"
        )
    read_config(read_json(config), has_head=True)
    return _fetched(model, _WANTED)


def _fetched(model: str, patterns: list[str]) -> Path:
    """The directory of a hub model, once the files that match `patterns` are in it."""
    try:
        # Imported here: it is an extra, and slow to import.
        from huggingface_hub import snapshot_download  # noqa: PLC0415
    except ImportError as error:
        raise SetupError(
            f"model {model!r} is no file here, and the hub needs huggingface_hub: pip install 'tailrace[hub]'"
        ) from error
    name, _, revision = model.partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=patterns))
    except Exception as error:  # the hub client fails in as many ways as its HTTP library does
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise SetupError(
            f"model {model!r} is no file here and cannot be fetched from the hub ({reason[0]}): check the name and the "
            "network, or name a file or directory"
        ) from error
