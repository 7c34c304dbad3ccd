"""How wide each class of weights is kept: what `--quantize` says, in words such as `int4,head=int8,attention=float`.

A class is what tensors of one role in a model are together, over its layers. Knows no arrays and no files.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

from tailrace.errors import SetupError
from tailrace.weights.names import tensor_class

__all__ = ["AS_STORED", "CLASSES", "WORDS", "KvCacheDtype", "Precision", "Quantize", "Width", "precision_class"]

Width = Literal["float", "int8", "int4"]
KvCacheDtype = Literal["bf16", "int8", "fp8_e4m3", "f32"]

_Word = TypeVar("_Word", bound=str)

_NARROWED = ("attention", "dense", "experts", "shared", "index", "head", "embed")
_KEPT = ("routers", "norms")  # small; what chooses experts, or tokens, decides by small differences
CLASSES = (*_NARROWED, *_KEPT)
_KV = "kv"
_ALWAYS_INT8 = ("head", "embed")  # 4 bits there cost more quality than they save
_WIDTHS: tuple[Width, ...] = get_args(Width)
_KV_WIDTHS: tuple[KvCacheDtype, ...] = get_args(KvCacheDtype)

WORDS = (
    f"a width ({', '.join(_WIDTHS)}) for all, then CLASS=WIDTH for classes ({', '.join(CLASSES)}) "
    f"and kv=WIDTH ({', '.join(_KV_WIDTHS)})"
)


def precision_class(name: str) -> str:
    """The class of our tensor `name`."""
    role = tensor_class(name)
    if "norm" in role:
        return "norms"
    if role in ("embed", "head"):
        return role
    first = role.partition(".")[0]
    if first == "router" or role == "index.weights":
        return "routers"
    if first in ("experts", "shared", "index"):
        return first
    return "dense" if first in ("gate", "up", "down", "eh_proj") else "attention"


@dataclass(frozen=True, slots=True)
class Precision:
    """Class -> width; None: as the file has it, with 8 bits where no packed format holds that.

    `float` is what the file holds, exactly: float32 where no packed format does. `int8` and `int4` narrow what is
    wider. Two that come to the same are equal, however they were written; `named` only remembers who was asked for.
    """

    widths: tuple[Width | None, ...] = (None,) * len(_NARROWED)  # in the order of the classes that can be narrowed
    kv: KvCacheDtype | None = None
    named: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def of(cls, quantize: "Quantize") -> "Precision":
        """What a caller may give: nothing, words or a value. Raises SetupError."""
        if quantize is None:
            return AS_STORED
        return cls.parse(quantize) if isinstance(quantize, str) else quantize

    @classmethod
    def parse(cls, words: str) -> "Precision":
        """Read `int4` or `int4,head=int8,kv=int8`. Raises SetupError, in one line, for words that mean nothing."""
        base, named = _split(words)
        kv = named.pop(_KV, None)
        widths = _of_all(base) | {name: _width(words, name, width) for name, width in named.items()}
        return cls(
            tuple(widths[name] for name in _NARROWED),
            None if kv is None else _kv_width(words, kv),
            frozenset(named),
        )

    def width(self, name: str) -> Width | None:
        """How wide the class `name` is kept."""
        return self.widths[_NARROWED.index(name)] if name in _NARROWED else "float"

    def weight_words(self, present: Collection[str] = CLASSES) -> str:
        """The shortest words that say it of a model's weights: equal for equal widths. Empty: as stored."""
        spellings = sorted(self._spellings(present), key=len)
        return ",".join(spellings[0])

    def __str__(self) -> str:
        """The words it could have been read from."""
        return ",".join(filter(None, (self.weight_words(), self.kv and f"{_KV}={self.kv}")))

    def check_named(self, present: Collection[str], source: str) -> None:
        """Refuse a class that was named and is not `present` in the model: a slip, or a misunderstanding."""
        for name in CLASSES:
            if name in self.named and name not in present:
                tied = " of its own: it is the embedding (embed)" if name == "head" else ""
                has = ", ".join(other for other in CLASSES if other in present)
                raise SetupError(f"{source}: quantize names {name}, and this model has no {name}{tied}; it has {has}")

    def settle_kv(self, kv_cache_dtype: KvCacheDtype | None) -> KvCacheDtype | None:
        """What to keep keys and values in, as said here or by `kv_cache_dtype`. Raises SetupError if both differ."""
        if self.kv and kv_cache_dtype and self.kv != kv_cache_dtype:
            raise SetupError(f"kv={self.kv} of quantize and a KV cache dtype of {kv_cache_dtype} differ: give one")
        return self.kv or kv_cache_dtype

    def _spellings(self, present: Collection[str]) -> Iterator[list[str]]:
        """By each word for all that can say it; what is as stored, only none can."""
        widths = {name: self.width(name) for name in _NARROWED if name in present}
        bases: tuple[Width | None, ...] = (None,) if None in widths.values() else _WIDTHS
        for base in bases:
            usual = _of_all(base)
            others = [f"{name}={width}" for name, width in widths.items() if width != usual[name]]
            yield [base, *others] if base else others


Quantize = Precision | str | None  # what openers of models take

AS_STORED = Precision()


def _of_all(base: Width | None) -> dict[str, Width | None]:
    """The widths of all classes under one word."""
    return {name: "int8" if base == "int4" and name in _ALWAYS_INT8 else base for name in _NARROWED}


def _split(words: str) -> tuple[Width | None, dict[str, str]]:
    base: Width | None = None
    named: dict[str, str] = {}
    for place, word in enumerate(part.strip() for part in words.split(",")):
        name, is_pair, width = (part.strip() for part in word.partition("="))
        if place == 0 and not is_pair:
            base = _one_of(_WIDTHS, words, word)
        elif not is_pair or name not in (*CLASSES, _KV):
            raise _wrong(words, f"{word[:60]!r} is no CLASS=WIDTH")
        elif name in named:
            raise _wrong(words, f"{name} is there twice")
        else:
            named[name] = width
    return base, named


def _width(words: str, name: str, width: str) -> Width:
    found = _one_of(_WIDTHS, words, width)
    if name in _KEPT and found != "float":
        raise _wrong(words, f"{name} are never narrowed")
    return found


def _kv_width(words: str, width: str) -> KvCacheDtype:
    return _one_of(_KV_WIDTHS, words, width)


def _one_of(choices: Collection[_Word], words: str, word: str) -> _Word:
    for choice in choices:
        if choice == word:
            return choice
    raise _wrong(words, f"{word[:60]!r} is no width")


def _wrong(words: str, reason: str) -> SetupError:
    return SetupError(f"quantize {words[:120]!r}: {reason}; write {WORDS}")
