"""From a program to the stages the CPU back end runs: what is fused, and in which form each activation is kept.

Knows shapes and weight formats only; nothing here touches an array.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from tailrace.ops.cpu.expert_lowering import expert_input_forms, lower_experts
from tailrace.ops.cpu.latent import lower_latent_attention
from tailrace.ops.cpu.stages import (
    AnglesStage,
    AttentionStage,
    Buffer,
    EmbedStage,
    Form,
    GatedStage,
    GatherStage,
    GemmStage,
    IndexKeyStage,
    IndexScoreStage,
    KernelFormat,
    NormStage,
    QuantizeStage,
    RopeStage,
    SelectStage,
    Stage,
    SwiGluStage,
    input_form,
)
from tailrace.ops.packed import GROUP
from tailrace.ops.program import (
    Embed,
    Experts,
    GatherRows,
    KvCacheSpec,
    LatentAttention,
    Linear,
    Op,
    PagedAttention,
    Program,
    RmsNorm,
    RopeAndStore,
    RopeSpec,
    Rows,
    SelectPositions,
    SwiGlu,
    Tensor,
    Weight,
)

__all__ = ["LoweredStage", "expert_weights", "lower", "matrices_of"]


class LoweredStage(NamedTuple):
    stage: Stage
    op: int  # which of the program's it computes, alone or with others; of fused ones the first


def lower(program: Program, formats: Mapping[str, KernelFormat]) -> tuple[LoweredStage, ...]:
    """The stages that compute `program` with weights of these formats, in order."""
    return tuple(_Lowering(program, formats).stages())


def matrices_of(program: Program) -> dict[str, int]:
    """Weights that are several matrices, one below the other: of how many heads, or experts."""
    counts: dict[str, int] = {}
    for op in program.ops:
        match op:
            case LatentAttention(k_b=k_b, v_b=v_b, num_heads=num_heads):
                counts |= {k_b.name: num_heads, v_b.name: num_heads}
            case Experts(gate=gate, up=up, down=down, routing=routing):
                counts |= {weight.name: routing.num_experts for weight in (gate, up, down)}
            case _:
                pass
    return counts


def expert_weights(program: Program) -> set[Weight]:
    """The weights of which a step needs the parts of chosen experts alone."""
    return {weight for op in program.ops if isinstance(op, Experts) for weight in (op.gate, op.up, op.down)}


class _Lowering:
    def __init__(self, program: Program, formats: Mapping[str, KernelFormat]) -> None:
        self._program = program
        self._formats = formats
        self._forms: dict[int, set[Form]] = {}
        self._num_readers = Counter[int]()
        self._num_tensors = program.num_tensors
        self._angles: dict[RopeSpec, Buffer] = {}
        for tensor, form in self._uses():
            self._forms.setdefault(tensor.index, set()).add(form)
            self._num_readers[tensor.index] += 1

    def stages(self) -> Iterator[LoweredStage]:
        ops = iter(enumerate(zip(self._program.ops, (*self._program.ops[1:], None), strict=True)))
        for number, (op, following) in ops:
            if isinstance(op, Linear) and isinstance(following, SwiGlu) and self._is_gated(op, following):
                gate, up = op.weights
                yield LoweredStage(GatedStage(Buffer(op.x, "int8"), gate, up, Buffer(following.out, "int8")), number)
                next(ops)
            else:
                yield from (LoweredStage(stage, number) for stage in self._lower(op))

    def _is_gated(self, op: Linear, swiglu: SwiGlu) -> bool:
        """Whether a linear and the SwiGLU behind it can be computed in one, without anybody missing their products."""
        formats = {self._formats[weight.name] for weight in op.weights}
        forms = {self._input_form(weight) for weight in op.weights}
        return (
            swiglu.x == op.out
            and self._num_readers[op.out.index] == 1
            and self._forms[swiglu.out.index] == {"int8"}
            and [weight.shape[0] for weight in op.weights] == 2 * [swiglu.out.cols]
            and len(formats) == 1
            and forms == {"int8"}
            and op.biases == (None, None)
            and op.residual is None
        )

    def _uses(self) -> Iterator[tuple[Tensor, Form]]:
        """Every tensor somebody reads, with the form it is read in."""
        yield self._program.logits, "float"
        for op in self._program.ops:
            match op:
                case Linear(x=x, weights=weights, residual=residual):
                    yield from ((x, self._input_form(weight)) for weight in weights)
                    if residual is not None:
                        yield residual, "float"
                case RmsNorm(x=x) | SwiGlu(x=x) | GatherRows(x=x) | RopeAndStore(qkv=x) | PagedAttention(q=x):
                    yield x, "float"
                case LatentAttention(q=q, latent=latent):
                    yield from ((tensor, "float") for tensor in (q, latent))
                case SelectPositions(q=q, k=k, head_weights=head_weights):
                    yield from ((tensor, "float") for tensor in (q, k, head_weights))
                case Experts(x=x, logits=logits, residual=residual):
                    yield from ((x, form) for form in expert_input_forms(op, self._formats))
                    yield from ((tensor, "float") for tensor in (logits, residual))
                case Embed():
                    pass

    def _input_form(self, weight: Weight) -> Form:
        return input_form(self._formats[weight.name])

    def _lower(self, op: Op) -> Iterator[Stage]:
        out = Buffer(op.out, "float")
        floats, codes = self._wanted(op.out, "float"), self._wanted(op.out, "int8")
        match op:
            case RmsNorm(x=x, weight=weight, eps=eps):
                yield NormStage(Buffer(x, "float"), weight, eps, floats, codes)
            case SwiGlu(x=x):
                yield SwiGluStage(Buffer(x, "float"), op.out.cols, floats, codes)
            case PagedAttention(q=q) if _ends_on_groups(op, self._program.caches[op.cache]):
                yield AttentionStage(Buffer(q, "float"), op, out, codes)
            case _:
                yield from self._lower_to_floats(op, out)
                if codes is not None:
                    yield QuantizeStage(out, codes)

    def _lower_to_floats(self, op: Op, out: Buffer) -> Iterator[Stage]:
        match op:
            case Embed(table=table):
                yield EmbedStage(table, out)
            case Linear():
                yield self._gemm(op, out)
            case RopeAndStore(qkv=qkv, rope=rope):
                yield from self._missing_angles(rope)
                yield RopeStage(Buffer(qkv, "float"), self._angles[_kept_with(rope)], op, out)
            case PagedAttention(q=q):
                yield AttentionStage(Buffer(q, "float"), op, out, None)
            case LatentAttention(rope=rope, k_b=k_b, v_b=v_b):
                yield from self._missing_angles(rope)
                forms = self._input_form(k_b), self._input_form(v_b)
                yield from lower_latent_attention(op, self._angles[_kept_with(rope)], forms, self._new_tensor)
            case SelectPositions():
                yield from self._select(op, out)
            case Experts():
                yield from lower_experts(op, self._formats, self._new_tensor)
            case GatherRows(x=x):
                yield GatherStage(Buffer(x, "float"), out)

    def _wanted(self, tensor: Tensor, form: Form) -> Buffer | None:
        return Buffer(tensor, form) if form in self._forms.get(tensor.index, ()) else None

    def _gemm(self, op: Linear, out: Buffer) -> GemmStage:
        forms = {self._input_form(weight) for weight in op.weights}
        return GemmStage(
            x=Buffer(op.x, "float") if "float" in forms else None,
            codes=Buffer(op.x, "int8") if "int8" in forms else None,
            weights=op.weights,
            biases=op.biases,
            residual=None if op.residual is None else Buffer(op.residual, "float"),
            out=out,
        )

    def _select(self, op: SelectPositions, out: Buffer) -> Iterator[Stage]:
        yield from self._missing_angles(op.rope)
        angles = self._angles[_kept_with(op.rope)]
        q, head_weights = Buffer(op.q, "float"), Buffer(op.head_weights, "float")
        yield IndexKeyStage(Buffer(op.k, "float"), angles, op)
        yield IndexScoreStage(q, head_weights, angles, op)
        yield SelectStage(q, head_weights, angles, op, out)

    def _missing_angles(self, rope: RopeSpec) -> Iterator[AnglesStage]:
        """What computes the angles of a rope, unless an op before has asked for them."""
        if _kept_with(rope) not in self._angles:
            angles = Buffer(self._new_tensor("tokens", 2 * len(rope.inv_freq)), "float")
            self._angles[_kept_with(rope)] = angles
            yield AnglesStage(rope, angles)

    def _new_tensor(self, rows: Rows, cols: int) -> Tensor:
        self._num_tensors += 1
        return Tensor(self._num_tensors - 1, rows, cols)


def _kept_with(rope: RopeSpec) -> RopeSpec:
    """Ropes that turn by the same angles share them, whatever they turn."""
    return replace(rope, interleaved=False)


def _ends_on_groups(op: PagedAttention, cache: KvCacheSpec) -> bool:
    """Whether the heads of one KV head fill whole groups, so that they can be quantised where they are computed."""
    return op.num_heads // cache.num_kv_heads * cache.head_dim % GROUP == 0
