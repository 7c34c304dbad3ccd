"""Records ops into a program, checking their shapes once, with the op's name in the message."""

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
    Routing,
    Rows,
    SelectPositions,
    SwiGlu,
    Tensor,
    Weight,
)

__all__ = ["ProgramBuilder"]


class ProgramBuilder:
    """Records ops; checks shapes once, here, with the op's name in the message."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._caches: list[KvCacheSpec] = []
        self._num_tensors = 0

    def embed(self, table: Weight) -> Tensor:
        out = self._tensor("tokens", table.shape[1])
        self._ops.append(Embed(table, out))
        return out

    def rms_norm(self, x: Tensor, weight: Weight, eps: float) -> Tensor:
        _check(weight.shape == (x.cols,), f"rms_norm: weight {weight.name} {weight.shape} for {x.cols} columns")
        out = self._tensor(x.rows, x.cols)
        self._ops.append(RmsNorm(x, weight, eps, out))
        return out

    def linear(
        self,
        x: Tensor,
        *weights: Weight,
        biases: tuple[Weight | None, ...] | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        for weight in weights:
            _check(weight.shape[1] == x.cols, f"linear: weight {weight.name} {weight.shape} for {x.cols} columns")
        out = self._tensor(x.rows, sum(weight.shape[0] for weight in weights))
        _check(residual is None or residual.cols == out.cols, "linear: the residual has another width than the output")
        self._ops.append(Linear(x, weights, biases or (None,) * len(weights), residual, out))
        return out

    def swiglu(self, x: Tensor) -> Tensor:
        _check(x.cols % 2 == 0, f"swiglu: {x.cols} columns are not gate and up side by side")
        out = self._tensor(x.rows, x.cols // 2)
        self._ops.append(SwiGlu(x, out))
        return out

    def kv_cache(self, num_kv_heads: int, head_dim: int, *, has_values: bool = True) -> int:
        """Declare a cache; the index goes into the ops that fill and read it."""
        self._caches.append(KvCacheSpec(num_kv_heads, head_dim, has_values))
        return len(self._caches) - 1

    def rope_and_store(
        self,
        qkv: Tensor,
        cache: int,
        num_heads: int,
        rope: RopeSpec,
        *,
        q_norm: Weight | None = None,
        k_norm: Weight | None = None,
        eps: float = 0.0,
    ) -> Tensor:
        spec = self._caches[cache]
        expected = (num_heads + 2 * spec.num_kv_heads) * spec.head_dim
        _check(qkv.cols == expected, f"rope_and_store: {qkv.cols} columns, expected {expected}")
        _check(2 * len(rope.inv_freq) <= spec.head_dim, "rope_and_store: more rotary dimensions than the head has")
        out = self._tensor("tokens", num_heads * spec.head_dim)
        self._ops.append(RopeAndStore(qkv, cache, num_heads, rope, q_norm, k_norm, eps, out))
        return out

    def paged_attention(self, q: Tensor, cache: int, num_heads: int, scale: float, window: int | None = None) -> Tensor:
        spec = self._caches[cache]
        _check(
            num_heads % spec.num_kv_heads == 0, f"paged_attention: {num_heads} heads over {spec.num_kv_heads} KV heads"
        )
        out = self._tensor("tokens", q.cols)
        self._ops.append(PagedAttention(q, cache, num_heads, scale, window, out))
        return out

    def latent_attention(
        self,
        q: Tensor,
        latent: Tensor,
        cache: int,
        num_heads: int,
        *,
        norm: Weight,
        eps: float,
        rope: RopeSpec,
        k_b: Weight,
        v_b: Weight,
        scale: float,
        selection: Tensor | None = None,
    ) -> Tensor:
        latent_dim, rope_dim = v_b.shape[1], 2 * len(rope.inv_freq)
        _check(q.cols == num_heads * (k_b.shape[1] + rope_dim), f"latent_attention: {q.cols} columns of queries")
        _check(latent.cols == latent_dim + rope_dim, f"latent_attention: {latent.cols} columns of latents")
        _check(norm.shape == (latent_dim,), f"latent_attention: norm {norm.shape} for latents of {latent_dim}")
        _check(k_b.shape[0] == num_heads * latent_dim, f"latent_attention: {k_b.name} {k_b.shape}")
        _check(v_b.shape[0] % num_heads == 0, f"latent_attention: {v_b.name} {v_b.shape} for {num_heads} heads")
        _check(self._caches[cache] == KvCacheSpec(1, latent.cols, has_values=False), "latent_attention: another cache")
        out = self._tensor("tokens", v_b.shape[0])
        self._ops.append(LatentAttention(q, latent, cache, num_heads, norm, eps, rope, k_b, v_b, scale, selection, out))
        return out

    def select_positions(
        self,
        q: Tensor,
        k: Tensor,
        head_weights: Tensor,
        cache: int,
        top_k: int,
        *,
        norm: Weight,
        norm_bias: Weight,
        eps: float,
        rope: RopeSpec,
    ) -> Tensor:
        _check(q.cols == head_weights.cols * k.cols, f"select_positions: {q.cols} columns of queries")
        _check(self._caches[cache] == KvCacheSpec(1, k.cols, has_values=False), "select_positions: another cache")
        _check(2 * len(rope.inv_freq) <= k.cols, "select_positions: more rotary dimensions than the key has")
        out = self._tensor("tokens", top_k)
        self._ops.append(SelectPositions(q, k, head_weights, cache, norm, norm_bias, eps, rope, out))
        return out

    def experts(
        self,
        x: Tensor,
        logits: Tensor,
        routing: Routing,
        *,
        gate: Weight,
        up: Weight,
        down: Weight,
        residual: Tensor,
        bias: Weight | None = None,
    ) -> Tensor:
        num_experts = routing.num_experts
        inner = gate.shape[0] // num_experts
        _check(logits.cols == num_experts, f"experts: {logits.cols} logits for {num_experts} experts")
        _check(gate.shape == up.shape == (num_experts * inner, x.cols), f"experts: {gate.name} {gate.shape}")
        _check(down.shape == (num_experts * residual.cols, inner), f"experts: {down.name} {down.shape}")
        _check_routing(routing)
        out = self._tensor(x.rows, residual.cols)
        self._ops.append(Experts(x, logits, bias, routing, gate, up, down, residual, out))
        return out

    def gather_rows(self, x: Tensor) -> Tensor:
        out = self._tensor("samples", x.cols)
        self._ops.append(GatherRows(x, out))
        return out

    def finish(self, logits: Tensor) -> Program:
        _check(logits.rows == "samples", "a program ends with logits of the sampled rows: gather_rows is missing")
        return Program(tuple(self._ops), tuple(self._caches), logits, self._num_tensors)

    def _tensor(self, rows: Rows, cols: int) -> Tensor:
        self._num_tensors += 1
        return Tensor(self._num_tensors - 1, rows, cols)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _check_routing(routing: Routing) -> None:
    groups, chosen = routing.num_groups, routing.top_groups
    _check(groups > 0 and routing.num_experts % groups == 0, f"experts: {groups} groups of {routing.num_experts}")
    _check(0 < chosen <= groups, f"experts: {chosen} of {groups} groups")
    size = routing.num_experts // groups
    _check(0 < routing.top_k <= chosen * size, f"experts: {routing.top_k} of {chosen * size} in the chosen groups")
    _check(routing.group_rank == "max" or size >= 2, "experts: groups of one expert have no two best")
