"""Builds an engine and the text side over it from their configs, for the server and for the library."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tailrace.classes import STANDARD, ServiceClasses
from tailrace.config import ChatFormatName, EngineConfig
from tailrace.engine.client import EngineClient, ObservePieces
from tailrace.engine.engine import Engine, Publish, Reply
from tailrace.engine.governor import Governor
from tailrace.engine.guidance import Guidance
from tailrace.engine.guided import GuidedRunner
from tailrace.engine.intake import Intake, IntakeConfig
from tailrace.engine.local import LocalEngine
from tailrace.engine.watch import StepWatch
from tailrace.guides.guided import Guided
from tailrace.guides.vocabulary import GuideVocabulary, TokenTable
from tailrace.kvcache.cache import KvCache
from tailrace.kvcache.transfer import BlockStore
from tailrace.levels.api import BlockLevel
from tailrace.limits import available_bytes
from tailrace.loading import LoadedModel, PlannedModel, load_model, plan_model
from tailrace.records import Record, RecordSink
from tailrace.rules.rule import Rule
from tailrace.runtime.kv_store import KvStore
from tailrace.runtime.masks import MaskWriter
from tailrace.runtime.runner import Runner
from tailrace.scheduler.admission import longest_sequence
from tailrace.scheduler.scheduler import Scheduler, SchedulerConfig
from tailrace.scheduler.steptime import StepTimeModel
from tailrace.service.api import ModelCard
from tailrace.service.bounds import TextBounds
from tailrace.service.guide_tokens import token_table
from tailrace.service.service import PromptWatcher, TextService
from tailrace.service.tokenizer import Tokenizer
from tailrace.telemetry.levels import ReadReports
from tailrace.types import Guide
from tailrace.weights.checkpoint import Checkpoint

if TYPE_CHECKING:
    from tailrace.service.formats.format import ChatFormat

__all__ = [
    "LoadedModel",
    "PlannedModel",
    "TextParts",
    "available_bytes",
    "build_engine",
    "build_service",
    "load_model",
    "make_intake",
    "open_store",
    "plan_model",
    "read_texts",
    "start_engine",
]

logger = logging.getLogger(__name__)

_GUIDED_A_PLACE = 4  # requests that follow a grammar, for each that may run


def start_engine(
    model: LoadedModel,
    config: EngineConfig,
    emit: RecordSink,
    on_failure: Callable[[], None],
    *,
    levels: Sequence[BlockLevel] = (),
    step_times: StepTimeModel | None = None,
    target_scale: float = 1.0,
) -> LocalEngine:
    """Build both columns and start the step loop. Call on the event loop that will read the streams.

    `on_failure` is called there when the loop has ended by itself. `levels`, nearest first, are closed with the engine.
    `step_times` is what is known of the machine, `target_scale` how many times as long as on faster ones the targets of
    the classes are.
    """
    intake = make_intake(model, config)
    build = partial(
        build_engine,
        model,
        config,
        intake,
        emit=emit,
        store=open_store(model, levels, intake),
        step_times=step_times,
        target_scale=target_scale,
    )
    return LocalEngine(intake, build, on_failure)


def make_intake(model: LoadedModel, config: EngineConfig) -> Intake:
    """Where requests to an engine on this model come in."""
    max_tokens = model.plan.max_request_tokens
    bounds = IntakeConfig(
        config.max_queued, config.max_queued_tokens, max_tokens, config.max_tenant_requests, config.classes
    )
    return Intake(bounds)


def open_store(
    model: LoadedModel,
    levels: Sequence[BlockLevel],
    intake: Intake,
    watch_levels: Callable[[ReadReports], None] = lambda read: None,
) -> KvStore | None:
    """What moves blocks between the engine and these levels; `watch_levels` is told where their reports are."""
    if not levels:
        return None
    store = KvStore(levels, model.executable.kv_pool, intake.wake, model.plan.everything)
    watch_levels(store.report)
    return store


def build_engine(
    model: LoadedModel,
    config: EngineConfig,
    intake: Intake,
    publish: Publish,
    reply: Reply,
    *,
    emit: RecordSink,
    watch: StepWatch | None = None,
    tells_blocks: bool = False,
    store: BlockStore | None = None,
    step_times: StepTimeModel | None = None,
    target_scale: float = 1.0,
    rules: Sequence[Rule] = (),
) -> Engine:
    """Both columns and the loop that joins them, not yet running. With `tells_blocks`, there are KV records too."""
    checkpoint, limits = model.checkpoint, model.limits
    cache = KvCache(replace(model.plan.kv_config, chunk_tokens=config.kv_chunk_tokens))
    if tells_blocks:
        cache.watch()
    scheduler = Scheduler(
        SchedulerConfig(
            budget_tokens=limits.max_tokens,
            max_running=limits.max_sequences,
            max_model_tokens=limits.max_model_tokens,
            eos_ids=checkpoint.eos_ids,
            chunk_tokens=config.chunk_tokens,
            classes=config.classes,
            target_scale=target_scale,
        ),
        cache,
        store,
        step_times=step_times,
    )
    mask_rows: dict[str, int] = {}
    runner = GuidedRunner(
        Runner(model.executable, limits, checkpoint.eos_ids, mask_rows),
        MaskWriter(model.executable.masks),
        mask_rows,
        checkpoint.eos_ids,
    )
    vocabulary = GuideVocabulary(partial(_guide_tokens, checkpoint), checkpoint.config.vocab_size)
    guidance = Guidance(
        partial(_prepared_guide, vocabulary),
        runner,
        partial(longest_sequence, config=scheduler.config),
        intake.wake,
        max_requests=_GUIDED_A_PLACE * limits.max_sequences,
    )
    governor = Governor(rules, scheduler, emit, read_levels=store.report if isinstance(store, KvStore) else tuple)

    def emit_to_all(record: Record) -> None:
        emit(record)
        governor.record(record)

    return Engine(
        scheduler,
        runner,
        intake,
        publish=publish,
        reply=reply,
        emit=emit_to_all if rules else emit,
        watch=watch,
        guidance=guidance,
        governor=governor,
    )


def _prepared_guide(vocabulary: GuideVocabulary, guide: Guide, max_tokens: int, output_ids: Sequence[int]) -> Guided:
    """What takes long is done here, on the thread that makes guides, and not between two steps."""
    guided = Guided(vocabulary, guide, max_tokens, output_ids)
    guided.prepare()
    return guided


def _guide_tokens(checkpoint: Checkpoint) -> TokenTable:
    """What grammars need to know of a model's tokens."""
    return token_table(Tokenizer.from_source(checkpoint.tokenizer), checkpoint.eos_ids)


@dataclass(frozen=True, slots=True)
class TextParts:
    """What turns a model's texts into tokens and back."""

    tokenizer: Tokenizer
    chat: "ChatFormat | None"


def read_texts(checkpoint: Checkpoint, chat_format: ChatFormatName = "auto") -> TextParts:
    """Takes a tenth of a second and more, in which a thread beside it may load the weights."""
    from tailrace.service.formats.registry import detect_format, named_format  # noqa: PLC0415  (jinja2)

    tokenizer = Tokenizer.from_source(checkpoint.tokenizer, add_bos=checkpoint.add_bos, bos_id=checkpoint.bos_id)
    template, special_tokens = checkpoint.chat_template, checkpoint.special_tokens
    if chat_format != "auto":
        return TextParts(tokenizer, named_format(chat_format, template, tokenizer, special_tokens))
    return TextParts(tokenizer, detect_format(template, tokenizer, special_tokens, checkpoint.config.architecture))


def build_service(
    checkpoint: Checkpoint,
    engine: EngineClient,
    card: ModelCard,
    watcher: PromptWatcher | None = None,
    classes: Callable[[], ServiceClasses] = lambda: STANDARD,
    *,
    bounds: TextBounds | None = None,
    texts: TextParts | None = None,
    chat_format: ChatFormatName = "auto",
    observe_text: ObservePieces | None = None,
) -> TextService:
    """The text side of a model over an engine; `watcher` is told of each prompt. Classes have the targets that hold.

    `texts` are those of the checkpoint, where somebody has read them already; else `chat_format` is theirs.
    """
    texts = texts or read_texts(checkpoint, chat_format)
    return TextService(
        engine,
        texts.tokenizer,
        texts.chat,
        card,
        bounds,
        classes=classes,
        watcher=watcher,
        observe_text=observe_text,
    )
