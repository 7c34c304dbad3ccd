"""Why a block is not there: what became of names, and whose else contents are. Bounded; the oldest are given up."""

from collections import OrderedDict
from typing import NamedTuple

from tailrace.kvcache.block import BlockName, Node, Owner
from tailrace.types import MissReason

__all__ = ["MissLedger", "Removal"]


class Removal(NamedTuple):
    """Why a name cannot be found. When and for which request it went are known of those that were there once."""

    reason: MissReason
    at_s: float | None = None
    by: str | None = None


_NEVER_SEEN = Removal(MissReason.NEVER_SEEN)


class MissLedger:
    """Its dictionaries are ordered ones because others take longer and longer to find their oldest entry."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._removals: OrderedDict[BlockName, Removal] = OrderedDict()  # the oldest first
        self._roots: OrderedDict[bytes, BlockName] = (
            OrderedDict()
        )  # of each content, the root under which it was sealed last

    def __len__(self) -> int:
        return max(len(self._removals), len(self._roots))

    def listed(self, node: Node) -> None:
        """A block is found under this name from now on."""
        self._removals.pop(node.name, None)
        self._roots.pop(node.content, None)
        self._roots[node.content] = node.owner.root
        if len(self._roots) > self._max_entries:
            self._roots.popitem(last=False)

    def removed(self, name: BlockName, removal: Removal) -> None:
        """It is found no more."""
        self._removals.pop(name, None)
        self._removals[name] = removal
        if len(self._removals) > self._max_entries:
            self._removals.popitem(last=False)

    def why(self, name: BlockName, content: bytes, owner: Owner) -> Removal:
        """Why a name that is not listed is not there."""
        removal = self._removals.get(name)
        if removal is not None:
            return removal
        if self._roots.get(content, owner.root) != owner.root:
            return Removal(MissReason.OTHER_SALT)
        return _NEVER_SEEN
