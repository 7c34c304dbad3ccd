"""One picture of a server, as its console gets it every second. Times count back from it, in seconds."""

import msgspec

__all__ = [
    "BlocksLine",
    "ClassLine",
    "ControlLine",
    "EventLine",
    "Frame",
    "HeatRow",
    "LevelLine",
    "OpLine",
    "ProcessLine",
    "RatesLine",
    "RequestLine",
    "RooflineLine",
    "ShownStep",
]


class RatesLine(msgspec.Struct):
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    requests_per_s: float
    refused_per_s: float
    steps_per_s: float


class ClassLine(msgspec.Struct):
    """Targets are those that hold on this machine; `on_target` is None when nobody ended."""

    name: str
    running: int
    waiting: int
    ttft_target_s: float
    itl_target_s: float
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    itl_p50_s: float | None
    itl_p99_s: float | None
    on_target: float | None
    num_refused: int


class LevelLine(msgspec.Struct):
    """`hit_rate`: of users' prompt tokens, the share that this level gave; None when nothing was asked."""

    name: str
    used: float | None  # of its bound
    num_blocks: int
    num_bytes: int
    max_bytes: int | None
    hit_rate: float | None
    is_up: bool
    mode: str  # normal, asynchronous, bypassed


class BlocksLine(msgspec.Struct):
    released: int
    free: int
    reserved: int
    filling: int
    sealed: int
    idle: int
    fragmentation: float


class HeatRow(msgspec.Struct):
    """Of one level, the start of each cell and the share of prompt tokens that it gave, oldest first."""

    level: str
    cells: list[tuple[float, float | None]]


class Heat(msgspec.Struct):
    cell_s: int
    rows: list[HeatRow]


class ControlLine(msgspec.Struct):
    budget_tokens: int
    max_running: int
    pace: float
    target_scale: float
    prediction_error_p50: float | None


class ShownStep(msgspec.Struct):
    id: int
    ago_s: float
    took_s: float
    predicted_s: float | None
    num_decodes: int
    num_prompt_tokens: int
    prompts: list[tuple[str, int]]


class OpLine(msgspec.Struct):
    name: str
    time_share: float
    memory_share: float
    compute_share: float


class RooflineLine(msgspec.Struct):
    """Shares of what the machine can do at best."""

    memory_share: float
    compute_share: float
    binds: str  # memory, compute
    ops: list[OpLine]


class ProcessLine(msgspec.Struct):
    name: str
    resident_bytes: int
    cpu: float  # cores


class RequestLine(msgspec.Struct):
    id: str
    endpoint: str
    class_name: str = msgspec.field(name="class")
    state: str  # waiting, prefill, decoding, ended
    ago_s: float
    took_s: float | None
    ttft_s: float | None
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    finish_reason: str | None
    error: str | None


class EventLine(msgspec.Struct):
    at_s: float  # since 1970
    kind: str
    message: str


class Frame(msgspec.Struct):
    """Rates and shares of time are of the last 5 s, quantiles and hit rates of the last 60."""

    model: str
    version: str
    uptime_s: float
    is_ready: bool
    num_api_processes: int
    rates: RatesLine
    classes: list[ClassLine]
    levels: list[LevelLine]
    blocks: BlocksLine
    heat: Heat
    control: ControlLine
    steps: list[ShownStep]  # since the frame before, oldest first
    time: dict[str, float]  # of the engine's time, the share of each part
    roofline: RooflineLine | None  # None: the machine was not measured, or nothing was timed
    processes: list[ProcessLine]
    requests: list[RequestLine]
    events: list[EventLine]  # newest first
