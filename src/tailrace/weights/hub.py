"""Models by hub id: downloaded with huggingface_hub, where that is installed, into its own cache."""

import re
from pathlib import Path

from tailrace.errors import SetupError

__all__ = ["hub_directory", "is_hub_id"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[\w./-]{1,100})?")
_WANTED = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja"]


def is_hub_id(model: str) -> bool:
    """Whether `model` reads like owner/name, or owner/name@revision."""
    return _HUB_ID.fullmatch(model) is not None


def hub_directory(model: str) -> Path:
    """The local directory of a hub model, downloaded first where it is missing. Raises SetupError, in one line."""
    try:
        # Imported here: it is an extra, and slow to import.
        from huggingface_hub import snapshot_download  # noqa: PLC0415
    except ImportError as error:
        raise SetupError(
            f"model {model!r} is no file here, and the hub needs huggingface_hub: pip install 'tailrace[hub]'"
        ) from error
    name, _, revision = model.partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=_WANTED))
    except Exception as error:  # the hub client fails in as many ways as its HTTP library does
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise SetupError(
            f"model {model!r} is no file here and cannot be fetched from the hub ({reason[0]}): check the name and the "
            "network, or name a file or directory"
        ) from error
