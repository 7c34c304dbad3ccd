"""What kind of work the ops of a program are: the few names under which a step's time is told, on any back end."""

from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum

from tailrace.ops.program import (
    Embed,
    Experts,
    GatherRows,
    LatentAttention,
    Linear,
    Op,
    PagedAttention,
    Program,
    RmsNorm,
    RopeAndStore,
    SelectPositions,
    SwiGlu,
    Tensor,
)

__all__ = ["OpKind", "kinds_of"]


class OpKind(StrEnum):
    EMBED = "embed"
    NORM = "norm"
    QKV = "qkv"  # projections to queries, keys and values, or to latents
    ROPE = "rope"  # turn queries and keys, and write to the KV cache
    LATENT = "latent"  # queries to latents, and what they gather to values
    ATTENTION = "attention"
    ATTENTION_OUT = "attention_out"
    INDEX = "index"  # choose the positions that attention sees
    GATE_UP = "gate_up"  # the gated MLP, dense or shared by all tokens: its way in, and its gate
    DOWN = "down"
    ROUTE = "route"  # choose experts
    EXPERTS = "experts"
    GATHER = "gather"
    HEAD = "head"  # logits
    LINEAR = "linear"  # any other
    SAMPLING = "sampling"
    WAITING = "waiting"  # for weights, experts or masks that were not there yet


# What a linear is for follows from who reads it; where several do, the first of these.
_PURPOSES = (OpKind.QKV, OpKind.INDEX, OpKind.ROUTE, OpKind.GATE_UP)


def kinds_of(program: Program) -> tuple[OpKind, ...]:
    """Of each op, in order."""
    purposes = _Purposes(program)
    return tuple(map(purposes.kind_of, program.ops))


class _Purposes:
    def __init__(self, program: Program) -> None:
        self._logits = program.logits
        self._makers = {op.out.index: op for op in program.ops}
        self._readers: dict[int, list[Op]] = defaultdict(list)
        for op in program.ops:
            for tensor in _read_by(op):
                self._readers[tensor.index].append(op)

    def kind_of(self, op: Op) -> OpKind:
        match op:
            case Embed():
                kind = OpKind.EMBED
            case RmsNorm():
                kind = OpKind.NORM
            case Linear():
                kind = self._kind_of_linear(op)
            case SwiGlu():
                kind = OpKind.GATE_UP
            case Experts():
                kind = OpKind.EXPERTS
            case GatherRows():
                kind = OpKind.GATHER
            case _:
                kind = _kind_through_cache(op)
        return kind

    def _kind_of_linear(self, op: Linear) -> OpKind:
        if op.out == self._logits:
            return OpKind.HEAD
        match self._makers.get(op.x.index):
            case PagedAttention() | LatentAttention():
                return OpKind.ATTENTION_OUT
            case SwiGlu():
                return OpKind.DOWN
            case _:
                purposes = set(self._purposes_of(op.out))
                return next((purpose for purpose in _PURPOSES if purpose in purposes), OpKind.LINEAR)

    def _purposes_of(self, tensor: Tensor) -> Iterator[OpKind]:
        """What a tensor is read for; a norm passes it on, and only what is projected once more is behind it."""
        for reader in self._readers[tensor.index]:
            match reader:
                case RopeAndStore() | LatentAttention():
                    yield OpKind.QKV
                case SelectPositions():
                    yield OpKind.INDEX
                case SwiGlu():
                    yield OpKind.GATE_UP
                case Experts(logits=logits) if logits == tensor:
                    yield OpKind.ROUTE
                case RmsNorm(out=out):
                    yield from (self._kind_of_linear(op) for op in self._readers[out.index] if isinstance(op, Linear))
                case _:
                    pass


def _kind_through_cache(op: RopeAndStore | PagedAttention | LatentAttention | SelectPositions) -> OpKind:
    match op:
        case RopeAndStore():
            return OpKind.ROPE
        case SelectPositions():
            return OpKind.INDEX
        case PagedAttention() | LatentAttention():
            return OpKind.ATTENTION


def _read_by(op: Op) -> Iterator[Tensor]:
    for name in op.__dataclass_fields__:
        value = getattr(op, name)
        if isinstance(value, Tensor) and name != "out":
            yield value
