"""The blocks that can be found by name, and what is told of those that came and went."""

from tailrace.kvcache.block import Block, BlockName, BlockTable, Node, Owner
from tailrace.kvcache.explain import MissLedger, Removal
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.pool import BlockPool
from tailrace.kvcache.prefix import PrefixIndex
from tailrace.records import BlockRemoved, BlockStored, KvFact
from tailrace.types import Level

__all__ = ["NamedBlocks", "first_covered", "forgotten_blocks"]

_MAX_EXPLAINED = 65_536  # names of which it is remembered why they went


class NamedBlocks:
    """Keeps the tree of names, the pool's knowledge of its leaves, the ledger of misses and the facts in step."""

    def __init__(self, pool: BlockPool, no_tenant: bytes) -> None:
        self.index = PrefixIndex()
        self._pool = pool
        self._ledger = MissLedger(min(4 * len(pool.blocks), _MAX_EXPLAINED))
        self._no_tenant = no_tenant
        self._facts: list[KvFact] | None = None

    def add(self, block: Block) -> bool:
        """List a sealed block; False when its name is taken, and it is a twin."""
        is_listed, front = self.index.add(block)
        if front is not None:
            self._pool.leaf_changed(front)
        node = block.node
        if is_listed and node is not None:
            self._ledger.listed(node)
            if self._facts is not None:
                self._facts.append(self._stored(node))
        return is_listed

    def remove(self, block: Block, removal: Removal) -> None:
        """Take a listed block out; it loses its name."""
        name = block.name
        assert name is not None, f"{block} has no name to lose"
        front = self.index.remove(block)
        if front is not None:
            self._pool.leaf_changed(front)
        self._ledger.removed(name, removal)
        if self._facts is not None:
            self._facts.append(BlockRemoved(Level.ENGINE, name))

    def why_missing(self, name: BlockName, content: bytes, owner: Owner) -> Removal:
        """Why the block of this name is not listed."""
        return self._ledger.why(name, content, owner)

    def covered(self, forget: Forget) -> list[Block]:
        match forget.scope:
            case Scope.BLOCK:
                block = self.index.get(forget.target)
                return [] if block is None else [block]
            case Scope.PREFIX:
                return list(self.index.descendants(forget.target))
            case Scope.TENANT:
                return [block for block, owner in self.index.owned() if owner.tenant == forget.target]
            case Scope.FINGERPRINT:
                return [block for block, owner in self.index.owned() if owner.fingerprint == forget.target]

    def watch(self) -> None:
        """Keep facts of blocks that are stored and removed, for `drain_facts`."""
        self._facts = []

    def drain_facts(self) -> tuple[KvFact, ...]:
        """What became of names since the last call; nothing unless somebody watches."""
        if not self._facts:
            return ()
        facts, self._facts = tuple(self._facts), []
        return facts

    def _stored(self, node: Node) -> BlockStored:
        parent = None if node.front == node.owner.root else node.front
        tenant = b"" if node.owner.tenant == self._no_tenant else node.owner.tenant
        return BlockStored(Level.ENGINE, node.name, parent, tuple(node.tokens), tenant)


def first_covered(table: BlockTable, targets: set[bytes], gone: set[BlockName | None], block_tokens: int) -> int | None:
    """The first block of a sequence that is `gone`, is being computed under a name that is, or began as one."""
    if table.owner.tenant in targets or table.owner.fingerprint in targets:
        return 0
    for index, name in enumerate(table.names):
        if name in gone or name in targets:
            return index
    return table.num_cached // block_tokens if table.start in gone or table.start in targets else None


def forgotten_blocks(table: BlockTable, targets: set[bytes], behind: set[bytes]) -> list[Block]:
    """The listed blocks of a sequence under names in `targets`, or that are or continue what is in `behind`.

    The tree does not lead to them all: not to those behind a twin. Twins lose their names, or they would be listed in
    the end.
    """
    is_owned = table.owner.tenant in behind or table.owner.fingerprint in behind
    first = 0 if is_owned else next((i for i, name in enumerate(table.names) if name in behind), len(table.names))
    later = set(table.names[first:])
    covered = [block for block in table.blocks if block.name in later or block.name in targets]
    for block in covered:
        if block.node is not None and block.node.block is not block:
            block.node = None
    return [block for block in covered if block.node is not None]
