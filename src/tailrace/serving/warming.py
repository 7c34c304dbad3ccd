"""What a server computes ahead at its start, and remembers for the next."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tailrace.config import WarmConfig
from tailrace.engine.board import Board
from tailrace.errors import SetupError
from tailrace.frontends.warm_file import check_writable, read_prompts, write_prompts
from tailrace.kvcache.warm import HotPrefix, PrefixTally
from tailrace.loading import PlannedModel
from tailrace.service.api import ListedPrompt, ModelCard
from tailrace.service.listed import encode_listed, kept_prompts, recall
from tailrace.service.service import TextService
from tailrace.service.warm import Warmer

__all__ = ["KeptPrompts", "ListedPrompts", "start_warming"]

logger = logging.getLogger(__name__)

_MAX_START_S = 60.0  # so long a server says that it is not ready while it computes what is expected


@dataclass(frozen=True, slots=True)
class ListedPrompts:
    """What is expected at the start: by the operator's list, and by what an earlier run has kept."""

    wanted: Sequence[ListedPrompt]
    kept: Sequence[ListedPrompt]

    @property
    def is_any(self) -> bool:
        return bool(self.wanted or self.kept)

    @classmethod
    def read(cls, config: WarmConfig) -> "ListedPrompts":
        """Raises SetupError. What is kept need not be there yet, but it must be possible to write it."""
        if config.state is not None:
            if config.prompts is not None and config.prompts.resolve() == config.state.resolve():
                raise SetupError("--warm and --warm-state name the same file, which the server would write over")
            check_writable(config.state)
        wanted = [] if config.prompts is None else read_prompts(config.prompts)
        kept = [] if config.state is None or not config.state.exists() else read_prompts(config.state)
        return cls(wanted, kept)


@dataclass(frozen=True, slots=True)
class KeptPrompts:
    """Writes what users' prompts begin with, for the next run; nothing where that is not wanted."""

    config: WarmConfig
    card: ModelCard

    @property
    def keep(self) -> Callable[[Sequence[HotPrefix]], None] | None:
        return None if self.config.state is None else self._keep

    def _keep(self, hottest: Sequence[HotPrefix]) -> None:
        state = self.config.state
        assert state is not None, "nothing was asked to be kept"
        try:
            write_prompts(state, kept_prompts(hottest, self.card))
        except OSError as error:
            logger.warning("cannot keep what prompts begin with in %s: %s", state, error.strerror)


async def start_warming(
    warmer: Warmer,
    tally: PrefixTally,
    text: TextService,
    *,
    board: Board,
    card: ModelCard,
    plan: PlannedModel,
    listed: ListedPrompts,
) -> asyncio.Task[None]:
    """Let what is expected be computed, and then what prompts show; meanwhile, for a while, the server is not ready."""

    def is_warm() -> None:
        board.is_warming = False

    wanted = await asyncio.to_thread(encode_listed, listed.wanted, text.tokenize, card, plan.limits.block_tokens)
    await asyncio.to_thread(recall, listed.kept, text.tokenize, card, tally, time.time())
    board.is_warming = listed.is_any
    asyncio.get_running_loop().call_later(_MAX_START_S, is_warm)
    warming = asyncio.create_task(warmer.run(wanted, is_warm))
    warming.add_done_callback(_say_failure)
    return warming


def _say_failure(warming: asyncio.Task[None]) -> None:
    """A server that computes nothing ahead is still a server."""
    if not warming.cancelled() and (error := warming.exception()) is not None:
        logger.error("nothing is computed ahead any more", exc_info=error)
