"""The compiled module csrc/bind. Offsets are bytes into a program's activations; ids number weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_TOP_LOGPROBS: int
PRIVATE_ROWS: int
TILE_TOKENS: int

_Codes = tuple[int, int | None]  # offset in the activations, offset in each thread's own copies

def isas() -> list[str]: ...
def choose_isa(name: str) -> str: ...
def quantized_bytes(max_rows: int, cols: int) -> int: ...
def kv_tile_bytes(kv_format: str, head_dim: int) -> int: ...
def ceilings(isa: str, num_threads: int, num_bytes: int) -> tuple[float, float]: ...

class Gauge:
    def __init__(self, isa: str, num_threads: int, max_bytes: int) -> None: ...
    def read(self, num_bytes: int) -> float: ...
    def multiply(self, numbers: str, count: int) -> float: ...

def uniform(seed: int, position: int) -> float: ...

class Weights:
    def __init__(self) -> None: ...
    def add_matrix(self, kernel_format: str, outputs: int, inputs: int, is_lazy: bool = False) -> int: ...
    def add_vector(self, values: NDArray[np.float32]) -> int: ...
    def interleave(self, gate: int, up: int) -> None: ...
    def place(self, kind: str) -> None: ...
    def place_lazy(self) -> None: ...
    def place_in_file(self, file: int, is_writable: bool) -> None: ...
    def fill_q4(
        self,
        matrix: int,
        first_row: int,
        codes: NDArray[np.uint8],
        scales: NDArray[np.floating[Any]],
        offsets: NDArray[np.floating[Any]],
    ) -> None: ...
    def fill_q8(
        self, matrix: int, first_row: int, codes: NDArray[np.int8], scales: NDArray[np.floating[Any]]
    ) -> None: ...
    def fill_float(self, matrix: int, first_row: int, values: NDArray[np.float32 | np.float16 | np.uint16]) -> None: ...
    def memory(self) -> NDArray[np.uint8]: ...
    def map_in(self) -> None: ...
    def set_ready(self, count: int) -> None: ...
    @property
    def num_ready(self) -> int: ...
    @property
    def planned_bytes(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def bytes_of(self, matrix: int) -> int: ...

class Step:
    def __init__(
        self,
        token_ids: NDArray[np.int32],
        row_starts: NDArray[np.int32],
        starts: NDArray[np.int32],
        slots: NDArray[np.int32],
        block_tables: NDArray[np.int32],
        sample_rows: NDArray[np.int32],
    ) -> None: ...

class Sampling:
    def __init__(
        self,
        temperature: NDArray[np.float32],
        top_p: NDArray[np.float32],
        top_k: NDArray[np.int32],
        min_p: NDArray[np.float32],
        seed: NDArray[np.uint64],
        position: NDArray[np.int64],
        num_logprobs: NDArray[np.int32],
        repetition_penalty: NDArray[np.float32],
        frequency_penalty: NDArray[np.float32],
        presence_penalty: NDArray[np.float32],
        history_starts: NDArray[np.int32],
        history_ids: NDArray[np.int32],
        history_prompt_tokens: NDArray[np.int32],
        bias_starts: NDArray[np.int32],
        bias_ids: NDArray[np.int32],
        bias_values: NDArray[np.float32],
        mask_rows: NDArray[np.int32] | None = None,
    ) -> None: ...

class Samples:
    def __init__(
        self,
        token_ids: NDArray[np.int32],
        logprobs: NDArray[np.float32],
        top_ids: NDArray[np.int32],
        top_logprobs: NDArray[np.float32],
    ) -> None: ...

class Masks:
    @property
    def rows(self) -> NDArray[np.uint32]: ...
    def tell(self, row: int, position: int) -> None: ...
    @property
    def waited_s(self) -> float: ...

class Program:
    def __init__(
        self,
        weights: Weights,
        isa: str,
        max_tokens: int,
        max_samples: int,
        max_sequences: int,
        max_blocks_per_sequence: int,
        num_blocks: int,
        block_tokens: int,
        num_threads: int,
        caches: Sequence[tuple[int, int, bool]],
        kv_format: str,
        activation_bytes: int,
        private_bytes: int,
    ) -> None: ...
    def need(self, num_weights: int) -> None: ...
    def finish(self, logits: int, vocab: int, num_embeddings: int) -> None: ...
    def compute(self, step: Step) -> None: ...
    def profile(self, step: Step) -> list[float]: ...
    def draw(self, step: Step, sampling: Sampling, samples: Samples) -> None: ...
    def draw_timed(
        self, step: Step, sampling: Sampling, samples: Samples
    ) -> tuple[list[float], list[float]]: ...  # seconds of each stage, and of drawing, and those waited
    def logits(self) -> NDArray[np.float32]: ...
    @property
    def masks(self) -> Masks: ...
    def copy_block(self, source: int, target: int, num_tokens: int) -> None: ...
    def commit(self, first: int, count: int) -> None: ...
    def populate(self, first: int, count: int) -> None: ...
    def release(self, first: int, count: int) -> None: ...
    @property
    def resident_pool_bytes(self) -> int: ...
    def pool(self) -> NDArray[np.uint8]: ...
    @property
    def block_bytes(self) -> int: ...
    @property
    def shared_reads(self) -> int: ...

class Builder:
    def __init__(self, program: Program) -> None: ...
    def embed(self, table: int, out: int) -> None: ...
    def norm(
        self, samples: bool, cols: int, x: int, weight: int, eps: float, out: int | None, quantized: _Codes | None
    ) -> None: ...
    def quantize(self, samples: bool, cols: int, x: int, out: _Codes) -> None: ...
    def gemm(
        self,
        samples: bool,
        x: int | None,
        quantized: _Codes | None,
        matrices: Sequence[int],
        bias: int | None,
        residual: int | None,
        out: int,
    ) -> None: ...
    def head_gemm(
        self,
        x: int | None,
        quantized: _Codes | None,
        matrices: Sequence[int],
        x_stride: int,
        out_stride: int,
        out: int,
    ) -> None: ...
    def swiglu(self, samples: bool, cols: int, x: int, out: int | None, quantized: _Codes | None) -> None: ...
    def gated(self, samples: bool, quantized: _Codes, gate: int, up: int, out: _Codes) -> None: ...
    def angles(self, inv_freq: Sequence[float], scale: float, out: int) -> None: ...
    def rope(
        self,
        qkv: int,
        angles: int,
        num_angles: int,
        interleaved: bool,
        cache: int,
        num_heads: int,
        q_norm: int | None,
        k_norm: int | None,
        eps: float,
        out: int,
    ) -> None: ...
    def attention(
        self, q: int, cache: int, num_heads: int, scale: float, window: int | None, out: int, quantized: _Codes | None
    ) -> None: ...
    def gather(self, cols: int, x: int, out: int) -> None: ...

class IndexBuilder:
    def __init__(self, builder: Builder) -> None: ...
    def keys(
        self, k: int, angles: int, num_angles: int, interleaved: bool, cache: int, norm: int, norm_bias: int, eps: float
    ) -> None: ...
    def scores(
        self,
        q: int,
        head_weights: int,
        angles: int,
        num_angles: int,
        interleaved: bool,
        cache: int,
        num_heads: int,
        top_k: int,
    ) -> None: ...
    def select(
        self,
        q: int,
        head_weights: int,
        angles: int,
        num_angles: int,
        interleaved: bool,
        cache: int,
        num_heads: int,
        top_k: int,
        out: int,
    ) -> None: ...

_Places = tuple[int | None, _Codes | None]  # of rows in floats, and in codes

class ExpertPlan:
    def __init__(self) -> None: ...

class ExpertLoad:
    def __init__(self, num_experts: int) -> None: ...
    @property
    def num_rows(self) -> list[int]: ...

class ResidencyCounts:
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    @property
    def evictions(self) -> int: ...
    @property
    def foreseen(self) -> int: ...
    @property
    def foreseen_hits(self) -> int: ...
    @property
    def waited_s(self) -> float: ...
    @property
    def num_resident(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...

class Residency:
    def __init__(self, weights: Weights, max_bytes: int) -> None: ...
    def add(self, experts: Sequence[Sequence[int]]) -> int: ...
    def take(self) -> tuple[int, int] | None: ...
    def done(self, mixture: int, expert: int) -> None: ...
    def fail_one(self, mixture: int, expert: int, reason: str) -> None: ...
    def fail(self, reason: str) -> None: ...
    def close(self) -> None: ...
    @property
    def counts(self) -> ResidencyCounts: ...

class MixtureBuilder:
    def __init__(
        self,
        builder: Builder,
        plan: ExpertPlan,
        samples: bool,
        num_experts: int,
        top_k: int,
        sigmoid: bool,
        num_groups: int,
        top_groups: int,
        ranked_by_two: bool,
        normalized: bool,
        scale: float,
    ) -> None: ...
    def reside(self, residency: Residency, number: int) -> None: ...
    def route(self, logits: int, bias: int | None, load: ExpertLoad) -> None: ...
    def dispatch(self, cols: int, x: _Places, out: _Places) -> None: ...
    def gated(self, x: _Places, places: _Places, gates: Sequence[int], ups: Sequence[int], out: _Places) -> None: ...
    def down(self, x: _Places, downs: Sequence[int], residual: int, out: int) -> None: ...

class LatentBuilder:
    def __init__(self, builder: Builder) -> None: ...
    def store(
        self,
        q: int,
        latent: int,
        angles: int,
        rotary_dim: int,
        interleaved: bool,
        cache: int,
        num_heads: int,
        plain_dim: int,
        latent_dim: int,
        norm: int,
        eps: float,
        queries: int,
        plain: _Codes | None,
    ) -> None: ...
    def attention(
        self,
        queries: int,
        cache: int,
        num_heads: int,
        latent_dim: int,
        scale: float,
        selection: int | None,
        top_k: int,
        out: int,
        quantized: _Codes | None,
    ) -> None: ...

class StoredRows:
    def __init__(
        self,
        form: str,
        data: NDArray[np.uint8],
        scales: NDArray[np.float32] | None,
        block_rows: int,
        block_cols: int,
        first_row: int,
    ) -> None: ...

class Converter:
    def __init__(self, isa: str) -> None: ...
    def to_q8(self, rows: StoredRows, codes: NDArray[np.int8], scales: NDArray[np.uint16]) -> tuple[float, float]: ...
    def to_q4(
        self, rows: StoredRows, codes: NDArray[np.uint8], scales: NDArray[np.uint16], offsets: NDArray[np.uint16]
    ) -> tuple[float, float]: ...
    def to_f32(self, rows: StoredRows, values: NDArray[np.float32]) -> None: ...
