"""What is asked to be forgotten, as names; and whether a block of a shared level was, after it had been written."""

from collections import OrderedDict
from collections.abc import Iterable

from tailrace.kvcache.block import BlockName
from tailrace.kvcache.cache import KvCache
from tailrace.kvcache.forget import Forget, Scope
from tailrace.kvcache.transfer import BlockHead
from tailrace.types import BlockTarget, ModelTarget, PromptTarget, Target

__all__ = ["Forgotten", "forgets_of"]

_MAX_TARGETS = 1 << 17  # about 20 MB
_LETTERS = {scope: scope[:1].encode() for scope in Scope}


def forgets_of(target: Target, cache: KvCache) -> tuple[Forget, ...]:
    """A prompt: all of its whole blocks, and whatever continues the last. None of them when it is not that long.

    What others continue differently behind an earlier block of the prompt is left alone.
    """
    if isinstance(target, BlockTarget):
        return (Forget(Scope.BLOCK, target.name),)
    if isinstance(target, ModelTarget):
        return (Forget(Scope.FINGERPRINT, target.fingerprint or cache.open("").owner.fingerprint),)
    table = cache.open(target.cache_salt)
    if not isinstance(target, PromptTarget):
        return (Forget(Scope.TENANT, table.owner.tenant),)
    cache.match(table, target.prompt_ids)
    *before, last = table.names or (None,)
    if last is None:
        return ()
    return (Forget(Scope.PREFIX, last), *(Forget(Scope.BLOCK, name) for name in before))


class Forgotten:
    """The forgets of a shared level, in the order of their versions, as one of its users knows them.

    A block that was written by somebody who had taken in version v is valid unless a forget that covers it has a later
    version. Of each target only the last forget counts. Bounded: of what lies before `floor` nothing is known any more,
    so that no block of such a version is valid.
    """

    def __init__(self, floor: int, max_targets: int = _MAX_TARGETS) -> None:
        self.floor = floor
        self._max_targets = max_targets
        self._versions: OrderedDict[bytes, int] = OrderedDict()  # oldest first
        self._num_prefixes = 0

    def __len__(self) -> int:
        return len(self._versions)

    def add(self, forget: Forget, version: int) -> None:
        """Of a version not below those before it."""
        key = _key(forget.scope, forget.target)
        self._num_prefixes += forget.scope is Scope.PREFIX and key not in self._versions
        self._versions[key] = version
        self._versions.move_to_end(key)
        while len(self._versions) > self._max_targets:
            dropped, dropped_version = self._versions.popitem(last=False)
            self._num_prefixes -= dropped.startswith(_LETTERS[Scope.PREFIX])
            self.floor = max(self.floor, dropped_version)

    def since(self, names: Iterable[BlockName]) -> int:
        """From which version on a block behind these may be valid, as far as it depends on what is in front of it."""
        if not self._num_prefixes:
            return 0
        return max((self._last(Scope.PREFIX, name) for name in names), default=0)

    def is_valid(self, head: BlockHead, version: int, since: int) -> bool:
        """Whether a block that was written at `version` may be used; `since` is that of its name and all in front."""
        return version >= max(
            self.floor,
            since,
            self._last(Scope.BLOCK, head.name),
            self._last(Scope.TENANT, head.tenant),
            self._last(Scope.FINGERPRINT, head.fingerprint),
        )

    def _last(self, scope: Scope, target: bytes) -> int:
        return self._versions.get(_key(scope, target), 0)


def _key(scope: Scope, target: bytes) -> bytes:
    return _LETTERS[scope] + target
