"""The tree of names: which block is found under a name, and what continues it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from tailrace.kvcache.block import Block, BlockName, BlockTable, Node, Owner

__all__ = ["InFlight", "PrefixIndex"]

_MAX_SIBLINGS = 64  # that are compared, the newest first, with a prompt that ends or turns off within a block


class PrefixIndex:
    """The block to reuse for each name. A second block with the same contents is a twin: sealed, but not listed.

    A name that something continues stays in the tree when its block goes, so that a prefix can be forgotten with all
    that continues it. `add` and `remove` return the listed block in front when it stopped or began to be a leaf.
    """

    def __init__(self) -> None:
        self._nodes: dict[BlockName, Node] = {}
        self._num_listed = 0

    def __len__(self) -> int:
        return self._num_listed

    def get(self, name: BlockName) -> Block | None:
        node = self._nodes.get(name)
        return None if node is None else node.block

    def owned(self) -> Iterator[tuple[Block, Owner]]:
        """All listed blocks and whose they are, in no order."""
        return ((node.block, node.owner) for node in self._nodes.values() if node.block is not None)

    def node(self, name: BlockName) -> Node | None:
        return self._nodes.get(name)

    def add(self, block: Block) -> tuple[bool, Block | None]:
        """List a sealed block under its name, unless the name is taken: then False, and it is a twin."""
        sealed = block.node
        assert sealed is not None, f"{block} has no name"
        node = self._nodes.setdefault(sealed.name, sealed)
        if node.block is not None:
            return False, None
        node.front, node.tokens, node.content = sealed.front, sealed.tokens, sealed.content
        node.block, block.node = block, node
        self._num_listed += 1
        return True, self._link(node)

    def remove(self, block: Block) -> Block | None:
        """Take a listed block out; it loses its name."""
        node = block.node
        assert node is not None, f"{block} has no name"
        assert node.block is block, f"{block} is not listed"
        block.node = node.block = None
        self._num_listed -= 1
        return self._prune(node)

    def longest_chain(self, names: Sequence[BlockName], limit: int) -> list[Block]:
        """The blocks of the longest prefix, of at most `limit` blocks, that is there as a whole."""
        found: list[Block] = []
        for name in names[:limit]:
            node = self._nodes.get(name)
            if node is None or node.block is None:
                break
            found.append(node.block)
        return found

    def longest_seen(
        self, names: Sequence[BlockName], limit: int, first_seen: Callable[[int], int]
    ) -> tuple[int, list[Block]]:
        """The longest prefix of which all is there that a row behind it sees: blocks from `first_seen(its end)` on.

        Returns the index of the first of these blocks, and them.
        """
        end, found = limit, list[Block]()  # last to first
        for index in reversed(range(limit)):
            block = self.get(names[index])
            if block is None:
                end, found = index, []
                continue
            found.append(block)
            first = first_seen(end)
            if index <= first:
                return first, found[: end - first][::-1]
        return 0, []

    def longest_start(self, parent: BlockName, tokens: Sequence[int]) -> tuple[Block | None, int]:
        """The block behind `parent` that begins with the most of `tokens`, and with how many."""
        best, most = None, 0
        for node in islice(self._children(self._nodes.get(parent)), _MAX_SIBLINGS):
            count = _num_common(node.tokens, tokens) if node.block is not None else 0
            if count > most:
                best, most = node.block, count
        return best, most

    def descendants(self, name: BlockName) -> Iterator[Block]:
        """The listed block of this name, and all that continue it."""
        waiting = [node for node in (self._nodes.get(name),) if node is not None]
        while waiting:
            node = waiting.pop()
            waiting.extend(self._children(node))
            if node.block is not None:
                yield node.block

    def check(self) -> None:
        """Assert that the tree is whole. For tests: it visits all names."""
        children = Counter(child.name for node in self._nodes.values() for child in self._children(node))
        assert max(children.values(), default=1) == 1, "a name is behind two others"
        for node in self._nodes.values():
            assert node.block is not None or node.child is not None, f"{node} is of no use"
            assert node.block is None or node.block.node is node, f"{node} leads to a block of another name"
            assert (node.parent is None) == (node.name not in children), f"{node} is lost"
            assert node.parent is None or node.parent.name == node.front, f"{node} is behind another name"

    def _children(self, node: Node | None) -> Iterator[Node]:
        child = None if node is None else node.child
        while child is not None:
            yield child
            child = child.next

    def _link(self, node: Node) -> Block | None:
        """Put a node behind the name in front of it, unless it is there already."""
        if node.parent is not None or node.front is None:
            return None
        parent = self._nodes.get(node.front)
        if parent is None:
            parent = self._nodes[node.front] = Node(node.front, node.owner)
        was_leaf = parent.child is None
        node.parent, node.next, parent.child = parent, parent.child, node
        if node.next is not None:
            node.next.previous = node
        return parent.block if was_leaf else None

    def _prune(self, node: Node) -> Block | None:
        """Drop a node that neither has a block nor is continued, and those in front of it that were there for it."""
        while node.block is None and node.child is None:
            parent = node.parent
            self._unlink(node)
            del self._nodes[node.name]
            if parent is None:
                return None
            node = parent
        return node.block if node.child is None else None

    def _unlink(self, node: Node) -> None:
        if node.previous is not None:
            node.previous.next = node.next
        elif node.parent is not None:
            node.parent.child = node.next
        if node.next is not None:
            node.next.previous = node.previous
        node.parent = node.previous = node.next = None


def _num_common(left: Sequence[int], right: Sequence[int]) -> int:
    count = 0
    for ours, theirs in zip(left, right, strict=False):
        if ours != theirs:
            break
        count += 1
    return count


class InFlight:
    """Names that a running sequence is about to seal: others better wait than compute the same block."""

    def __init__(self) -> None:
        self._owners: dict[BlockName, BlockTable] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._owners

    def __len__(self) -> int:
        return len(self._owners)

    def owned(self) -> tuple[tuple[BlockName, BlockTable], ...]:
        return tuple(self._owners.items())

    def begin(self, table: BlockTable) -> None:
        for name in table.names[table.num_sealed :]:
            self._owners.setdefault(name, table)

    def sealed(self, name: BlockName) -> None:
        self._owners.pop(name, None)

    def abandon(self, table: BlockTable) -> None:
        for name in table.names[table.num_sealed :]:
            if self._owners.get(name) is table:
                del self._owners[name]

    def last_of(self, names: Sequence[BlockName], start: int, limit: int) -> BlockName | None:
        """The end of the run of names in flight that begins at `start`."""
        last = None
        for name in names[start:limit]:
            if name not in self._owners:
                break
            last = name
        return last
