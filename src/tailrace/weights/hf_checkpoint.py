"""A Hugging Face directory (config.json, *.safetensors, tokenizer.json) as a checkpoint."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.models.config import ModelConfig
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.fingerprint import fingerprint
from tailrace.weights.hf_config import read_config
from tailrace.weights.hf_quantization import read_settings
from tailrace.weights.hf_tensors import find_tensor
from tailrace.weights.hf_text import read_json, read_text
from tailrace.weights.layer_settings import LayerSettings
from tailrace.weights.lazy import lazy_tensors
from tailrace.weights.mapped import by_file
from tailrace.weights.mtp import is_mtp_tensor, num_mtp_layers
from tailrace.weights.names import HUGGING_FACE_NAMES
from tailrace.weights.precision import Precision, Quantize
from tailrace.weights.safetensors import SafetensorsTensor, read_safetensors
from tailrace.weights.scheme import SETTINGS, read_scheme
from tailrace.weights.settings_file import is_there
from tailrace.weights.stored import FileTensor, FileTensors

__all__ = ["open_directory"]

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_MAX_NAME_CHARS = 255
_LAYERS = LayerSettings(
    HUGGING_FACE_NAMES, "num_hidden_layers", "first_k_dense_replace and moe_layer_freq (or mlp_layer_types)"
)
_HEAD = HUGGING_FACE_NAMES["head"].removesuffix("weight")  # of a quantised one, all parts begin so
_IGNORED = ("lm_head.weight", ".rotary_emb.inv_freq")  # a tied head saved twice; frequencies, which we compute


def open_directory(directory: Path, quantize: Quantize = None, *, mtp: bool = False) -> Checkpoint:
    """Open a model directory. Raises CheckpointError or UnsupportedModel naming file, tensor or setting."""
    precision = Precision.of(quantize)
    settings = read_settings(directory)
    in_files = _read_tensors(directory)
    config = read_config(settings, has_head=any(name.startswith(_HEAD) for name in in_files))
    found = FileTensors(str(directory), read_scheme(settings).compose(in_files))
    config = replace(config, num_mtp_layers=num_mtp_layers(found, HUGGING_FACE_NAMES, config.num_layers))
    is_unused = partial(_is_unused, found=found, config=config)
    tensors = lazy_tensors(found, config, find_tensor, _LAYERS, is_unused=is_unused, precision=precision, mtp=mtp)
    files = by_file((tensor.file, (tensor.begin, tensor.end)) for tensor in in_files.values())
    scheme = repr(settings.values.get(SETTINGS, "")).encode()  # the same codes stand for other values under another
    text = read_text(directory, settings, config.vocab_size)
    return Checkpoint(
        name=directory.resolve().name,
        source=directory,
        config=config,
        tensors=tensors,
        fingerprint=fingerprint(files, [repr(config).encode(), tensors.precision_words.encode(), scheme]),
        tokenizer=directory / "tokenizer.json",
        chat_template=text.chat_template,
        bos_id=text.bos_id,
        eos_ids=text.eos_ids,
        add_bos=text.add_bos,
        special_tokens=text.special_tokens,
        requantize_errors=tensors.errors,
        stored_formats={name: stored.stored_format for name, stored in tensors.stored.items()},
        float_matrices=tensors.float_matrices,
        stored_bytes=sum(file.size for file, _ in files),
        files=[file for file, _ in files],
    )


def _is_unused(name: str, found: FileTensors, config: ModelConfig) -> bool:
    """Tensors that are saved twice or that we compute, and what of multi-token prediction nobody asked for."""
    if name.endswith(_IGNORED) or name.startswith("mtp.") or is_mtp_tensor(name, HUGGING_FACE_NAMES, config):
        return True
    return name.endswith(".bias") and _is_zero(found.tensors[name])


def _is_zero(stored: FileTensor) -> bool:
    """AutoGPTQ gives biases to all matrices, of nothing but zeros where the model has none."""
    stored.check()
    return len(stored.shape) == 1 and not stored.packed().dequantize().any()


def _read_tensors(directory: Path) -> dict[str, SafetensorsTensor]:
    index = directory / _INDEX
    if not is_there(index):
        return read_safetensors(_single_file(directory))
    placed = read_json(index).table("weight_map").values
    files = {name: read_safetensors(directory / name) for name in sorted(_file_names(index, placed.values()))}
    tensors = {}
    for tensor, name in placed.items():
        if tensor not in files[name]:
            raise CheckpointError(f"{directory / name}: tensor {tensor!r} is missing, which {_INDEX} places here")
        tensors[tensor] = files[name][tensor]
    return tensors


def _file_names(index: Path, names: Iterable[object]) -> set[str]:
    """Only plain names: an index must not lead out of its directory."""
    plain = set()
    for name in names:
        is_plain = isinstance(name, str) and name == Path(name).name and name.endswith(".safetensors")
        if not is_plain or len(str(name)) > _MAX_NAME_CHARS:
            raise CheckpointError(f"{index}: {name!r:.80} is not the name of a safetensors file beside it")
        plain.add(str(name))
    return plain


def _single_file(directory: Path) -> Path:
    found = sorted(directory.glob("*.safetensors"))
    if directory / _SINGLE in found:
        return directory / _SINGLE
    if len(found) == 1:
        return found[0]
    if found:
        raise CheckpointError(f"{directory}: {len(found)} safetensors files, and no {_INDEX} to say what is where")
    if any(directory.glob("*.bin")):
        raise UnsupportedModel(f"{directory}: the weights are PyTorch pickles (*.bin); convert them to safetensors")
    raise CheckpointError(f"{directory}: no safetensors file; fetch the model again")
