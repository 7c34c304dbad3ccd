"""Requests as the scheduler knows them, made without one."""

from array import array
from itertools import count
from math import inf

from tailrace.classes import STANDARD
from tailrace.kvcache.block import Block, BlockTable, Owner
from tailrace.scheduler.live import LiveRequest
from tailrace.types import Request, SamplingParams, packed

__all__ = ["make_live", "make_waiting"]

_OWNER = Owner(b"fingerprint", b"tenant", b"root")
_EMPTY = BlockTable(_OWNER)
_NUMBERS = count()


def make_live(
    class_name: str = "silver",
    *,
    num_computed: int = 0,
    num_shared: int = 0,
    block_tokens: int = 4,
    num_output_tokens: int = 1,
    max_tokens: int = 100,
    arrival_rank: int | None = None,
    arrival_s: float = 0.0,
    deadline_s: float = inf,
    first_token_s: float | None = None,
    last_token_s: float | None = None,
    work_tokens: int = 0,
    itl_s: float | None = None,
) -> LiveRequest:
    """A request that runs: it holds blocks up to what it has computed, and others hold `num_shared` of these too."""
    number = next(_NUMBERS)
    num_prompt_tokens = max(num_computed + 1 - num_output_tokens, 1)
    prompt_ids = tuple(range(num_prompt_tokens))
    num_blocks = -(-num_computed // block_tokens)
    blocks = [Block(index, num_users=1 + (index < num_shared)) for index in range(num_blocks)]
    live = LiveRequest(
        request_id=f"r{number}",
        request=Request(f"r{number}", prompt_ids, SamplingParams(max_tokens), arrival_s),
        arrival_rank=number if arrival_rank is None else arrival_rank,
        table=BlockTable(_OWNER, blocks=blocks, num_sealed=num_computed // block_tokens),
        token_ids=array("I", [*prompt_ids, *range(num_output_tokens)]),
        max_length=num_prompt_tokens + max_tokens,
        max_blocks=-(-(num_prompt_tokens + max_tokens) // block_tokens),
        stop_ids=frozenset(),
        num_computed=num_computed,
    )
    live.service_class = STANDARD.named(class_name)
    live.itl_s = live.service_class.itl_s if itl_s is None else itl_s
    live.deadline_s, live.work_tokens = deadline_s, work_tokens
    live.first_token_s, live.last_token_s = first_token_s, last_token_s
    return live


def make_waiting(
    rank: int,
    work_tokens: int = 3,
    *,
    arrival_s: float | None = None,
    class_name: str = "",
    tenant: str = "",
    ttft_s: float | None = None,
    expires_s: float = inf,
) -> LiveRequest:
    """A request as the queue sees it: number `rank` to arrive, at that second unless told otherwise."""
    arrival_s = float(rank) if arrival_s is None else arrival_s
    service_class = STANDARD.named(class_name)
    request = Request(f"r{rank}", (1,), SamplingParams(1), arrival_s, class_name=class_name, tenant=tenant)
    return LiveRequest(
        request_id=request.request_id,
        request=request,
        arrival_rank=rank,
        table=_EMPTY,
        token_ids=packed((1,)),
        max_length=2,
        max_blocks=1,
        stop_ids=frozenset(),
        service_class=service_class,
        deadline_s=arrival_s + (service_class.ttft_s if ttft_s is None else ttft_s),
        expires_s=expires_s,
        work_tokens=work_tokens,
    )
