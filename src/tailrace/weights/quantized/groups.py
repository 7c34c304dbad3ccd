"""The settings of compressed-tensors: which modules of a model are quantised, and how the weights of each."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.patterns import Patterns

__all__ = ["Group", "Targets", "read_groups", "read_targets"]

_MAX_GROUPS = 64
_MAX_PATTERNS = 256
_MAX_BLOCK = 1 << 20
_PATTERN = "re:"
_EMBEDDING = "embed_tokens"

_STRATEGIES = ("tensor", "channel", "group", "tensor_group", "block")
_PLAIN = ("tensor", "channel", "group", "block")


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a format may be asked for."""

    kind: str
    bits: Collection[int]
    strategies: tuple[str, ...]
    is_symmetric: bool = True


_LAYOUTS: Mapping[str, _Layout] = {
    "pack-quantized": _Layout("int", range(2, 9), ("tensor", "channel", "group"), is_symmetric=False),
    "int-quantized": _Layout("int", range(2, 9), _PLAIN, is_symmetric=False),
    "float-quantized": _Layout("float", (8,), _PLAIN),
    "mxfp8-quantized": _Layout("float", (8,), ("group",)),
    "mxfp4-pack-quantized": _Layout("float", (4,), ("group",)),
    "nvfp4-pack-quantized": _Layout("float", (4,), ("tensor_group", "group")),
}
_BY_KIND = {"int": "int-quantized", "float": "float-quantized"}  # what "naive-quantized" means


@dataclass(frozen=True, slots=True)
class Targets:
    """Some modules: by name, by patterns of names, or by the class of module that transformers has for them."""

    names: frozenset[str]
    patterns: Patterns | None

    def named(self, module: str) -> bool:
        return module in self.names

    def matched(self, module: str) -> bool:
        return self.patterns is not None and self.patterns.match(module)

    def of_class(self, module: str) -> bool:
        """All that have matrices are linear, but for the table of embeddings."""
        return ("Embedding" if module.endswith(_EMBEDDING) else "Linear") in self.names

    def __contains__(self, module: str) -> bool:
        return self.named(module) or self.matched(module) or self.of_class(module)


@dataclass(frozen=True, slots=True)
class Group:
    """How the weights of some modules are quantised. `block`: rows and columns that share a scale, 0 for all."""

    source: str
    targets: Targets
    format: str
    bits: int
    is_symmetric: bool
    strategy: str
    block: tuple[int, int]

    def block_of(self, shape: tuple[int, int], where: str) -> tuple[int, int]:
        """Raises CheckpointError when groups do not fill the rows of a matrix."""
        height, width = (of_block or of_all for of_block, of_all in zip(self.block, shape, strict=True))
        if self.strategy in ("group", "tensor_group") and shape[1] % width:
            raise CheckpointError(
                f"{where} has {shape[1]} inputs, and group_size {width} of {self.source} is no divisor"
            )
        return height, width


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups; `ignored` modules are in none, whoever targets them."""

    source: str
    groups: tuple[Group, ...]
    ignored: Targets

    def of(self, module: str, where: str) -> Group:
        """The group of a module that has codes: that which names it most closely. Raises CheckpointError for none."""
        if module in self.ignored:
            raise CheckpointError(f"{where} is quantised, and 'ignore' of {self.source} says that it is not")
        for is_member in (Targets.named, Targets.matched, Targets.of_class):
            for group in self.groups:
                if is_member(group.targets, module):
                    return group
        raise CheckpointError(f"{where} is quantised, and no group of {self.source} has it among its targets")


def read_groups(settings: Fields) -> Groups:
    """Of a whole quantization_config. Raises CheckpointError or UnsupportedModel, naming the setting."""
    tables = settings.table("config_groups")
    if len(tables.values) > _MAX_GROUPS:
        raise settings.wrong("config_groups", f"a table of at most {_MAX_GROUPS}")
    read = partial(_group, default=settings.text("format", ""))
    groups = tuple(read(tables.table(name)) for name in tables.values if tables.has(name))
    return Groups(settings.source, tuple(group for group in groups if group), read_targets(settings, "ignore"))


def read_targets(settings: Fields, key: str) -> Targets:
    entries = settings.values.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise settings.wrong(key, "a list of names")
    patterns = [entry.removeprefix(_PATTERN) for entry in entries if entry.startswith(_PATTERN)]
    if len(patterns) > _MAX_PATTERNS:
        raise settings.wrong(key, f"a list of at most {_MAX_PATTERNS} patterns")
    source = f"{settings.source}: {key}"
    return Targets(frozenset(entries), Patterns(patterns, source) if patterns else None)


def _group(table: Fields, default: str) -> Group | None:
    """None: of these modules only what goes in or comes out is quantised, which is nothing to us."""
    weights = table.table("weights")
    if not weights.values:
        return None
    kind, bits, strategy = weights.text("type", "int").lower(), weights.integer("num_bits", 8), _strategy(weights)
    format_ = _format(table, default, kind)
    is_symmetric = weights.flag("symmetric", True)
    layout = _LAYOUTS[format_]
    asked = f"{kind} of {bits} bits by {strategy}{'' if is_symmetric else ', asymmetric'}"
    is_known = kind == layout.kind and bits in layout.bits and strategy in layout.strategies
    if not is_known or (layout.is_symmetric and not is_symmetric):
        raise UnsupportedModel(f"{weights.source}: {asked[:80]} is not supported in format {format_!r}")
    return Group(
        table.source, read_targets(table, "targets"), format_, bits, is_symmetric, strategy, _block(weights, strategy)
    )


def _format(table: Fields, default: str, kind: str) -> str:
    format_ = table.text("format", default)
    format_ = _BY_KIND.get(kind, format_) if format_ == "naive-quantized" else format_
    if format_ not in _LAYOUTS:
        raise UnsupportedModel(
            f"{table.source}: format {format_[:60]!r} is not supported; supported: {', '.join(_LAYOUTS)}"
        )
    return format_


def _strategy(weights: Fields) -> str:
    """Where it is left out, the size of groups tells."""
    size = weights.integer("group_size", 0, low=-1)
    strategy = weights.text("strategy", "group" if size > 0 else "channel" if size < 0 else "tensor").lower()
    if strategy not in _STRATEGIES:
        raise UnsupportedModel(
            f"{weights.source}: strategy {strategy[:60]!r} is not supported; supported: {', '.join(_STRATEGIES)}"
        )
    return strategy


def _block(weights: Fields, strategy: str) -> tuple[int, int]:
    match strategy:
        case "tensor":
            return 0, 0
        case "channel":
            return 1, 0
        case "block":
            return _block_structure(weights)
        case _:
            return 1, weights.integer("group_size", high=_MAX_BLOCK)


def _block_structure(weights: Fields) -> tuple[int, int]:
    """[16, 32], or as older files have it "16x32"."""
    key = "block_structure"
    found: Any = weights.values.get(key)
    sizes = [_number(part) for part in found.split("x")] if isinstance(found, str) else found
    if not isinstance(sizes, list) or len(sizes) != 2 or not all(_is_size(size) for size in sizes):
        raise weights.wrong(key, f"two integers between 1 and {_MAX_BLOCK}")
    return sizes[0], sizes[1]


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_BLOCK
