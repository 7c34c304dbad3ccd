"""What it costs to send a running request back to the queue, and what room that makes."""

from dataclasses import dataclass

from tailrace.scheduler.live import LiveRequest

__all__ = ["RestoreCosts", "lost_share", "num_blocks_gained"]

_ROOMY_SHARE = 0.2  # of the pool, available: what becomes idle is there for a while


def lost_share(num_available: int, num_total: int) -> float:
    """How likely a block that becomes idle now is gone when it is wanted again, `num_available` being free or idle.

    The longest idle go first, so it stays for long in a roomy pool, and in a full one it is the next that somebody
    takes. Where a level below keeps all sealed blocks, none is lost: do not ask then.
    """
    return min(max(1.0 - num_available / (_ROOMY_SHARE * num_total), 0.0), 1.0)


def num_blocks_gained(live: LiveRequest) -> int:
    """Blocks that nobody else holds: free or idle once this request gives its blocks back."""
    return sum(block.num_users == 1 for block in live.table.blocks)


@dataclass(frozen=True, slots=True)
class RestoreCosts:
    """Of a request that is sent back, sealed blocks may be found again; the tokens behind them are computed twice."""

    block_tokens: int
    seconds_per_token: float  # of a prompt, computed
    lost_share: float  # of its sealed blocks that nobody else holds; see the function

    def num_tokens(self, live: LiveRequest) -> int:
        """Tokens that will most likely be computed again."""
        table = live.table
        num_named = table.num_sealed if table.severed_at is None else min(table.num_sealed, table.severed_at)
        named = table.blocks[: max(num_named - table.first, 0)]
        num_own = sum(block.num_users == 1 for block in named)
        num_unnamed = live.num_computed - num_named * self.block_tokens
        return max(num_unnamed, 0) + round(self.lost_share * num_own * self.block_tokens)

    def price_s(self, live: LiveRequest, now_s: float, out_s: float) -> float:
        """The time of the machine it takes, and how late the request's next token comes if it is away for `out_s`."""
        restore_s = self.num_tokens(live) * self.seconds_per_token
        return restore_s + max(out_s + restore_s - self._slack_s(live, now_s), 0.0)

    def _slack_s(self, live: LiveRequest, now_s: float) -> float:
        """Until its next token is due; who is late already is due now."""
        if live.last_token_s is None:
            due_s = live.deadline_s - live.gap * self.seconds_per_token
        else:
            due_s = live.last_token_s + live.itl_s
        return max(due_s - now_s, 0.0)
