"""What the kinds of ops of a model cost in a step, counted slowly: over names of weights, rows, heads and positions."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tailrace.models.config import LatentConfig, ModelConfig, SparseConfig
from tailrace.models.registry import build_program

__all__ = ["Kept", "SlowStep", "slow_costs"]

# The last words of weights' names.
_KINDS = {
    "q": "qkv",
    "k": "qkv",
    "v": "qkv",
    "q_a": "qkv",
    "q_b": "qkv",
    "kv_a": "qkv",
    "o": "attention_out",
    "gate": "gate_up",
    "up": "gate_up",
    "down": "down",
    "router": "route",
    "head": "head",
}
_OF_SAMPLES_IN_THE_LAST_LAYER = {"gate_up", "down", "route", "experts"}


@dataclass(frozen=True)
class Kept:
    """How a back end keeps things. `position_bytes` of the caches of a layer, those of the indexer last."""

    weight_bytes: Mapping[str, float]
    position_bytes: Sequence[float]
    is_expanded: bool = False
    scores_all: bool = False


@dataclass(frozen=True)
class SlowStep:
    """Sequences as (start, rows, block table), and of each mixture the experts that were chosen."""

    sequences: Sequence[tuple[int, int, Sequence[int]]]
    block_tokens: int
    num_samples: int
    chosen: Sequence[Collection[int]] = ()

    @property
    def num_tokens(self) -> int:
        return sum(count for _, count, _ in self.sequences)

    def positions(self) -> list[tuple[int, Sequence[int]]]:
        """Of each row, with its sequence's table."""
        return [(start + row, table) for start, count, table in self.sequences for row in range(count)]


@dataclass
class _Tally:
    num_bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    num_ops: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def slow_costs(config: ModelConfig, step: SlowStep, kept: Kept) -> dict[str, tuple[float, float]]:
    """Bytes and operations of each kind."""
    tally = _Tally()
    tally.num_bytes["embed"] = step.num_tokens * kept.weight_bytes["embed"] / config.vocab_size
    _add_weights(config, step, kept, tally)
    for layer in range(config.num_layers):
        if config.latent is not None:
            _add_latent_layer(config, config.latent, step, kept, tally)
        else:
            _add_layer(config, config.window_of(layer), step, kept, tally)
        if config.sparse is not None:
            _add_index(config.sparse, step, kept, tally)
    kinds = tally.num_bytes.keys() | tally.num_ops.keys()
    return {kind: (tally.num_bytes[kind], tally.num_ops[kind]) for kind in kinds}


def _add_weights(config: ModelConfig, step: SlowStep, kept: Kept, tally: _Tally) -> None:
    """All weights but the table of embeddings, which is that of the head where both are tied."""
    mixtures = [layer for layer in range(config.num_layers) if config.mixture and config.mixture.is_mixture(layer)]
    shapes = {name: weight.shape for name, weight in build_program(config).weights.items() if name != "embed"}
    if config.tie_word_embeddings:
        shapes["head"] = (config.vocab_size, config.hidden_size)
    for name, shape in shapes.items():
        kind = _kind_of(name)
        is_sampled = name in ("head", "norm") or (
            name.startswith(f"layers.{config.num_layers - 1}.")
            and (kind in _OF_SAMPLES_IN_THE_LAST_LAYER or name.endswith("mlp_norm"))
        )
        rows = step.num_samples if is_sampled else step.num_tokens
        num_bytes = kept.weight_bytes["embed" if name == "head" and config.tie_word_embeddings else name]
        share = 1.0
        if ".experts." in name and config.mixture is not None:
            mixture = mixtures.index(int(name.split(".")[1]))
            num_bytes *= len(step.chosen[mixture]) / config.mixture.routing.num_experts
            share = config.mixture.routing.top_k / config.mixture.routing.num_experts
        if name.endswith((".k_b", ".v_b")) and kept.is_expanded:
            kind, share = "attention", 0.0  # multiplied with what each row sees: counted there
        if rows > 0:
            tally.num_bytes[kind] += num_bytes
        if len(shape) == 2:
            tally.num_ops[kind] += 2 * rows * prod(shape) * share


def _kind_of(name: str) -> str:
    if ".index." in name:
        return "index"
    if ".experts." in name or name.endswith("router.bias"):
        return "experts"
    if name.endswith((".k_b", ".v_b")):
        return "latent"
    if name.endswith((".q_norm", ".k_norm", ".kv_a_norm")):
        return "rope"
    word = name.removesuffix(".bias").split(".")[-1]
    return _KINDS.get(word, "norm")


def _add_layer(config: ModelConfig, window: int | None, step: SlowStep, kept: Kept, tally: _Tally) -> None:
    read = set()
    for position, table in step.positions():
        seen = [place for place in range(position + 1) if window is None or place > position - window]
        read |= {(table[place // step.block_tokens], place % step.block_tokens) for place in seen}
        for _ in range(config.num_heads):
            tally.num_ops["attention"] += len(seen) * (2 * config.head_dim + 2 * config.head_dim)
    tally.num_bytes["attention"] += len(read) * kept.position_bytes[0]
    tally.num_bytes["rope"] += step.num_tokens * kept.position_bytes[0]


def _add_latent_layer(config: ModelConfig, sizes: LatentConfig, step: SlowStep, kept: Kept, tally: _Tally) -> None:
    most = config.sparse.top_k if config.sparse is not None else 1 << 30
    latent, plain, rope, value = sizes.latent_dim, sizes.plain_dim, sizes.rope_dim, sizes.value_dim
    for position, _ in step.positions():
        seen = min(position + 1, most)
        absorbed = 2 * (latent + rope) + 2 * latent
        expanded = 2 * latent * plain + 2 * latent * value + 2 * (plain + rope) + 2 * value
        tally.num_ops["attention"] += config.num_heads * seen * (expanded if kept.is_expanded else absorbed)
    for start, count, _ in step.sequences:  # which share no block
        selected = sum(min(start + row + 1, most) for row in range(count))
        tally.num_bytes["attention"] += min(start + count, selected) * kept.position_bytes[0]
    tally.num_bytes["rope"] += step.num_tokens * kept.position_bytes[0]


def _add_index(sparse: SparseConfig, step: SlowStep, kept: Kept, tally: _Tally) -> None:
    read = set()
    for position, table in step.positions():
        if position + 1 <= sparse.top_k and not kept.scores_all:
            continue
        for place in range(position + 1):
            read.add((table[place // step.block_tokens], place % step.block_tokens))
            tally.num_ops["index"] += sparse.num_heads * (2 * sparse.head_dim + 2)
    tally.num_bytes["index"] += (len(read) + step.num_tokens) * kept.position_bytes[1]
