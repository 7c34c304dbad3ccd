"""How GPTQ quantised the modules of a model: alike, but for those that `dynamic` names by patterns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tailrace.errors import CheckpointError, UnsupportedModel
from tailrace.weights.fields import Fields
from tailrace.weights.quantized.grouping import read_group_size
from tailrace.weights.quantized.patterns import Patterns

__all__ = ["GptqSettings", "ModuleSettings"]

_BITS = (2, 3, 4, 8)
_FORMATS = ("gptq", "gptq_v2")
_DYNAMIC = "dynamic"
_MAX_RULES = 1024
_INCLUDES, _SKIPS = "+:", "-:"


@dataclass(frozen=True, slots=True)
class ModuleSettings:
    """How one module was quantised; `is_reordered`: its inputs, from the most important to the least."""

    bits: int
    group_size: int
    is_symmetric: bool
    is_reordered: bool

    @classmethod
    def read(cls, fields: Fields) -> "ModuleSettings":
        bits = fields.integer("bits")
        if bits not in _BITS:
            raise UnsupportedModel(
                f"{fields.source}: GPTQ of {bits} bits is not supported; supported: {', '.join(map(str, _BITS))}"
            )
        return cls(bits, read_group_size(fields), fields.flag("sym", True), fields.flag("desc_act", False))


@dataclass(frozen=True, slots=True)
class GptqSettings:
    """Of the rules the first that matches a module decides; without settings, it says that the module is skipped.

    `is_second`: zero points are stored as they are, which the first format stores less one.
    """

    source: str
    usual: ModuleSettings
    rules: tuple[tuple[Patterns, ModuleSettings | None], ...]
    is_second: bool

    @classmethod
    def read(cls, fields: Fields) -> "GptqSettings":
        """Raises UnsupportedModel for a layout that is not known here."""
        rules = tuple(_rules(fields))
        return cls(fields.source, ModuleSettings.read(fields), rules, _format(fields) == _FORMATS[1])

    def of_module(self, module: str) -> ModuleSettings | None:
        """None: it is not quantised."""
        return next((settings for pattern, settings in self.rules if pattern.match(module)), self.usual)


def _format(fields: Fields) -> str:
    name = fields.text("checkpoint_format", fields.text("format", _FORMATS[0])).lower()
    if fields.flag("is_marlin_format", False):
        name = "marlin"
    if name not in _FORMATS:
        raise UnsupportedModel(
            f"{fields.source}: GPTQ in format {name[:60]!r} is not supported; supported: {', '.join(_FORMATS)}"
        )
    if (packed_in := fields.text("pack_dtype", "int32")) != "int32":
        raise UnsupportedModel(f"{fields.source}: pack_dtype {packed_in[:60]!r} is not supported; supported: int32")
    return name


def _rules(fields: Fields) -> Iterator[tuple[Patterns, ModuleSettings | None]]:
    table = fields.table(_DYNAMIC)
    if len(table.values) > _MAX_RULES:
        raise UnsupportedModel(f"{table.source}: {len(table.values)} rules are too many; at most {_MAX_RULES}")
    for rule, changed in table.values.items():
        source = f"{table.source}: {rule[:60]!r}"
        if rule.startswith(_SKIPS):
            yield Patterns([rule.removeprefix(_SKIPS)], source), None
        elif isinstance(changed, Mapping):
            settings = ModuleSettings.read(Fields(source, {**fields.values, **changed}))
            yield Patterns([rule.removeprefix(_INCLUDES)], source), settings
        else:
            raise CheckpointError(f"{source} must be a table of settings")
