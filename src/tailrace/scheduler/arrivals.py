"""How a request comes in: checked, with the promises of its class, and with what there is to compute for it."""

from tailrace.kvcache.cache import KvCache
from tailrace.scheduler.admission import longest_sequence, refuse_what_cannot_run, stop_ids
from tailrace.scheduler.config import SchedulerConfig
from tailrace.scheduler.foresight import Foresight
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.pending import PendingBlocks
from tailrace.scheduler.targets import Targets
from tailrace.types import Request, packed

__all__ = ["Arrivals"]


class Arrivals:
    def __init__(self, config: SchedulerConfig, cache: KvCache, foresight: Foresight, targets: Targets) -> None:
        self._config = config
        self._cache = cache
        self._foresight = foresight
        self._targets = targets
        self._pending = PendingBlocks(cache.is_in_flight)
        self._num_arrived = 0

    def take(self, request: Request) -> LiveRequest:
        """A request that holds nothing yet. Raises InvalidRequest or ContextTooLong for what can never run."""
        refuse_what_cannot_run(request, self._config, self._cache.config)
        classes = self._targets.classes
        service_class = classes.least if request.is_warmup else classes.named(request.class_name)
        max_length = longest_sequence(request, self._config)
        group = self._foresight.group_of(request, service_class.name)
        self._num_arrived += 1
        return LiveRequest(
            request_id=request.request_id,
            request=request,
            arrival_rank=self._num_arrived,
            table=self._cache.open(request.cache_salt, request.request_id, group),
            token_ids=packed(request.prompt_ids, request.output_ids),
            max_length=max_length,
            max_blocks=self._cache.config.blocks_at_once(max_length - 1),  # the last token is never computed
            stop_ids=stop_ids(request.sampling, self._config),
            service_class=service_class,
            itl_s=request.itl_s or service_class.itl_s,
            deadline_s=request.arrival_s + (request.ttft_s or service_class.ttft_s),
            expires_s=request.arrival_s + (request.queue_ttl_s or service_class.queue_ttl_s),
        )

    def appraise(self, live: LiveRequest) -> None:
        """Work out what is to be computed for a request that begins to wait: what others will compute is not its work.

        `forget` must follow when it waits no longer.
        """
        block_tokens = self._cache.config.block_tokens
        match = self._cache.match(live.table, live.token_ids)
        live.missing = live.table.names[match.end :]
        num_others = len(live.missing) - self._pending.enter(live.missing)
        num_cached = (match.end + num_others) * block_tokens + match.num_start_tokens
        live.work_tokens = max(len(live.token_ids) - num_cached, 1)

    def forget(self, live: LiveRequest) -> None:
        """It runs now, or has ended."""
        self._pending.leave(live.missing)
        live.missing = []
