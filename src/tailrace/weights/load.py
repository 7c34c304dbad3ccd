"""From a model argument to a checkpoint: a model that we know by name, a GGUF file, a directory or a hub id."""

import dataclasses
from pathlib import Path

from tailrace.errors import SetupError
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.default_model import DEFAULT_MODEL_NAME, default_model_path
from tailrace.weights.gguf_checkpoint import open_gguf
from tailrace.weights.precision import Precision, Quantize
from tailrace.weights.tiny_deepseek import TINY_DEEPSEEK_NAME, tiny_deepseek_path
from tailrace.weights.wheel import Progress

__all__ = ["open_checkpoint"]


def open_checkpoint(
    model: str | None, *, quantize: Quantize = None, mtp: bool = False, progress: Progress | None = None
) -> Checkpoint:
    """Open what `model` names; None or "default" is the embedded model, "tiny-deepseek" the one in the package.

    `quantize` says how wide each class of weights is kept, as `Precision` or in its words: "int4,head=int8".
    `mtp` loads the weights for multi-token prediction too. `progress` follows the download of the default model.
    Raises CheckpointError, UnsupportedModel or SetupError, in one line.
    """
    quantize = Precision.of(quantize)  # what is wrong with it is said before a download
    if model is None or model == "default":
        return dataclasses.replace(open_gguf(default_model_path(progress), quantize, mtp=mtp), name=DEFAULT_MODEL_NAME)
    if model == TINY_DEEPSEEK_NAME:
        return dataclasses.replace(open_gguf(tiny_deepseek_path(), quantize, mtp=mtp), name=TINY_DEEPSEEK_NAME)
    if (path := _existing(model)) is not None:
        return _open_directory(path, quantize, mtp) if path.is_dir() else open_gguf(path, quantize, mtp=mtp)
    from tailrace.weights.hub import hub_directory, is_hub_id  # noqa: PLC0415  (as in _open_hugging_face)

    if is_hub_id(model) and not model.endswith(".gguf"):
        return dataclasses.replace(_open_hugging_face(hub_directory(model), quantize, mtp), name=model)
    raise SetupError(
        f"model {model!r} is neither a file nor a directory here, nor a hub id (owner/name), nor "
        f"{TINY_DEEPSEEK_NAME!r}; leave it out for the default model"
    )


def _open_hugging_face(directory: Path, quantize: Quantize, mtp: bool) -> Checkpoint:
    # A GGUF file, as the default model is, starts without the readers of all other formats.
    from tailrace.weights.hf_checkpoint import open_directory  # noqa: PLC0415

    return open_directory(directory, quantize, mtp=mtp)


def _existing(model: str) -> Path | None:
    """The file or directory that `model` names."""
    try:
        path = Path(model).expanduser()
        return path if model and path.exists() else None
    except (OSError, RuntimeError) as error:  # a directory that may not be entered, a home that nobody has
        raise SetupError(f"model {model[:200]!r} cannot be looked at: {error}") from error


def _open_directory(path: Path, quantize: Quantize, mtp: bool) -> Checkpoint:
    """A directory that holds one GGUF file and no config is taken for that file."""
    if (path / "config.json").is_file():
        return _open_hugging_face(path, quantize, mtp)
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return open_gguf(files[0], quantize, mtp=mtp)
    otherwise = f"name one of its {len(files)} GGUF files" if files else "name one that has, or a GGUF file"
    raise SetupError(f"{path} is no model directory: it has no config.json; {otherwise}")
