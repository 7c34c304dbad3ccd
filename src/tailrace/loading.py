"""A model on its way to a device: what is known of it before a weight is read, and what it is once it is there."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tailrace.classes import ServiceClasses
from tailrace.config import EngineConfig, WarmConfig
from tailrace.engine.calibrate import Reads, calibrated, guessed
from tailrace.kvcache.cache import KvCacheConfig
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.naming import BlockNamer
from tailrace.kvcache.warm import PrefixTally, TallyConfig
from tailrace.levels.api import BlockLevel
from tailrace.levels.config import LevelsConfig
from tailrace.levels.opening import open_levels
from tailrace.limits import settle_limits, widest_window
from tailrace.models.registry import build_program
from tailrace.ops.api import Backend, Executable, LaidOutProgram, Limits, Progress
from tailrace.ops.load import load_backend, measured_ceilings
from tailrace.ops.program import Program
from tailrace.records import ResidencyCounts, Tell, untold
from tailrace.runtime.runner import Runner
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.service.api import ModelCard
from tailrace.service.warm import WarmerConfig
from tailrace.version import __version__
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.expected import active_parameters, expected_shapes
from tailrace.weights.packed_cache import PackedCache

__all__ = ["LoadedModel", "PackedModel", "PlannedModel", "load_model", "plan_model"]

_TALLY_PIECE_TOKENS = 64
_LARGE_BYTES = 256 << 20  # of packed weights
_RATE_BYTES = 64 << 20
_WARM_PIECE_TOKENS = 128  # what a step computes ahead at most: who comes meanwhile waits no longer


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A checkpoint with its program, the back end for it and all bounds, before any weight is read."""

    checkpoint: Checkpoint
    program: Program
    backend: Backend
    limits: Limits

    @property
    def kv_format(self) -> str:
        return f"{self.backend.name} {self.backend.kv_format}"

    @property
    def kv_config(self) -> KvCacheConfig:
        # The trained context stretches dynamic scaling; the bound of this server never does.
        config = self.checkpoint.config
        rope = (config.rope_theta, config.rope_scaling, config.max_model_tokens)
        return KvCacheConfig(
            num_blocks=self.limits.num_blocks,
            block_tokens=self.limits.block_tokens,
            # Blocks outlive this process and travel between machines, so that they must not differ in a bit.
            root_parts=(self.checkpoint.fingerprint, self.kv_format, self.backend.kv_bits, __version__, repr(rope)),
            window_tokens=widest_window(self.program),
        )

    @property
    def everything(self) -> Forget:
        """Covers all blocks that this model can use."""
        return Forget(Scope.FINGERPRINT, BlockNamer(self.limits.block_tokens, self.kv_config.root_parts).fingerprint)

    @property
    def is_bound_by_kv(self) -> bool:
        """Whether the KV memory cannot hold a request as long as the settings allow."""
        return not self.kv_config.can_hold(self.limits.max_model_tokens)

    @property
    def max_request_tokens(self) -> int:
        """The most tokens of one prompt and its answer."""
        return self.kv_config.num_tokens if self.is_bound_by_kv else self.limits.max_model_tokens

    def tally(self, config: WarmConfig) -> PrefixTally:
        """What counts the beginnings of prompts, in pieces of whole blocks."""
        piece_tokens = self._whole_blocks(_TALLY_PIECE_TOKENS)
        return PrefixTally(TallyConfig(max_pieces=config.max_tokens // piece_tokens, piece_tokens=piece_tokens))

    def warmer_config(self, classes: ServiceClasses) -> WarmerConfig:
        """Half the cache may be filled ahead, by requests that rank last."""
        piece_tokens = self._whole_blocks(_WARM_PIECE_TOKENS)
        return WarmerConfig(piece_tokens, self.kv_config.num_tokens // 2, class_name=classes.least.name)

    def _whole_blocks(self, num_tokens: int) -> int:
        block_tokens = self.limits.block_tokens
        return -(-num_tokens // block_tokens) * block_tokens

    def card(self, name: str | None = None) -> ModelCard:
        served = name or self.checkpoint.name
        return ModelCard(
            name=served,
            aliases=() if served == self.checkpoint.name else (self.checkpoint.name,),
            created_s=int(time.time()),
            max_model_tokens=self.max_request_tokens,
            vocab_size=self.checkpoint.config.vocab_size,
            is_bound_by_kv=self.is_bound_by_kv,
            eos_ids=tuple(self.checkpoint.eos_ids),
        )

    def lay_out(self, cache: PackedCache | None = None, *, is_shared: bool = False) -> "PackedModel":
        """Give all weights their places: those in a file that `cache` has of them, or memory, which is to be filled.

        `is_shared`: that of large models can be filled by a process that is forked from here on.
        """
        model = PackedModel(self, self.backend.lay_out(self.program, self.checkpoint.tensors, self.limits), cache)
        if not model.take_from_cache():
            model.program.place(is_shared=is_shared and model.is_large)
        return model

    def pack(self, progress: Progress | None = None, cache: PackedCache | None = None) -> "PackedModel":
        """Lay out and fill. Takes seconds for large models that `cache` does not have; `progress` follows."""
        model = self.lay_out(cache)
        model.fill(progress)
        return model

    def load(self, progress: Progress | None = None, cache: PackedCache | None = None) -> "LoadedModel":
        """Pack and start at once."""
        return self.pack(progress, cache).start()


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A model whose weights have their places in memory, which processes that are forked now will share."""

    plan: PlannedModel
    program: LaidOutProgram
    cache: PackedCache | None = None

    @property
    def is_large(self) -> bool:
        """Whether it is worth while to let requests in before all is read, and to keep what was packed."""
        return self.program.num_bytes >= _LARGE_BYTES

    @property
    def is_whole(self) -> bool:
        """Whether all weights are there."""
        return self.program.is_whole

    def take_from_cache(self) -> bool:
        """Let the weights be those of a file, if there is one."""
        if self.cache is None or not self.is_large:
            return False
        file = self.cache.find(self._key, self.program.num_bytes)
        if file is None:
            return False
        self.program.place_in_file(file)
        os.close(file)  # it stays mapped
        return True

    def fill(self, progress: Progress | None = None) -> None:
        """Read the weights that are not there. Raises CheckpointError for damaged ones."""
        if not self.is_whole:
            self.program.fill(progress)
            self.plan.checkpoint.check_unchanged()
        self.plan.checkpoint.release_pages()

    def keep(self) -> None:
        """Write what was packed to the cache, if there is one and it is worth while."""
        if self.cache is not None and self.is_large:
            self.cache.save(self._key, self.program.memory())

    @property
    def _key(self) -> str:
        return f"{self.plan.checkpoint.fingerprint}-{self.program.layout}"

    def start(self) -> "LoadedModel":
        """Take threads and a KV pool, in the process that will compute. Raises SetupError."""
        return LoadedModel(self.plan, self.program.start())


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on a device."""

    plan: PlannedModel
    executable: Executable

    @property
    def checkpoint(self) -> Checkpoint:
        return self.plan.checkpoint

    @property
    def limits(self) -> Limits:
        return self.plan.limits

    def calibrate(self) -> StepTimeModel:
        """How long steps take here, from a few small ones. Only while no engine runs on this model.

        While weights are still being read, no step would tell: what they take is guessed from what the machine can do.
        """
        if self.executable.is_whole:
            return calibrated(Runner(self.executable, self.limits, ()), self.limits)
        ceilings = measured_ceilings(self.plan.backend.name, self.limits.num_threads, _RATE_BYTES)
        assert ceilings is not None, "who can wait for weights can be measured"
        return guessed(ceilings, self._reads, self.limits)

    @property
    def _reads(self) -> Reads:
        config = self.checkpoint.config
        active, total = active_parameters(config), sum(prod(shape) for shape in expected_shapes(config).values())
        return Reads(total_bytes=self.executable.weight_bytes, active_share=active / total, active_parameters=active)

    def open_levels(self, config: LevelsConfig, tell: Tell = untold) -> list[BlockLevel]:
        """The levels below the engine; `tell` hears, on any thread, when one goes down and when it works again.

        Raises SetupError for one that was asked for and cannot be used.
        """
        block_bytes = self.executable.kv_bytes_per_block
        return open_levels(
            config,
            self.plan.everything,
            block_bytes=block_bytes,
            engine_bytes=block_bytes * self.limits.num_blocks,
            tell=tell,
        )

    def watch_experts(self, on_filled: Callable[[], None]) -> None:
        """Call this, from any thread, whenever an expert is loaded that some step has chosen, if that is how it is."""
        if (resident := self.executable.resident_experts) is not None:
            resident.watch(on_filled)

    def expert_residency(self) -> ResidencyCounts | None:
        """What became of experts that are loaded when they are chosen; None where all are there."""
        resident = self.executable.resident_experts
        return None if resident is None else resident.counts()

    def expert_tokens(self) -> dict[int, list[int]]:
        """Of each layer that is a mixture of experts, the tokens each expert has computed, if somebody counts them."""
        mixture, num_layers = self.checkpoint.config.mixture, self.checkpoint.config.num_layers
        layers = [layer for layer in range(num_layers) if mixture is not None and mixture.is_mixture(layer)]
        return {layer: load.tolist() for layer, load in zip(layers, self.executable.expert_loads, strict=False)}


def plan_model(checkpoint: Checkpoint, config: EngineConfig) -> PlannedModel:
    """Record the model and settle its bounds. Raises SetupError for settings that this model or machine cannot meet."""
    program = build_program(checkpoint.config)
    backend = load_backend(config.backend, config.kv_cache_dtype)
    limits = settle_limits(checkpoint, backend.kv_bytes_per_block(program, config.block_tokens), config)
    return PlannedModel(checkpoint, program, backend, limits)


def load_model(
    checkpoint: Checkpoint, config: EngineConfig, progress: Progress | None = None, cache: PackedCache | None = None
) -> LoadedModel:
    """Plan and load at once."""
    return plan_model(checkpoint, config).load(progress, cache)
