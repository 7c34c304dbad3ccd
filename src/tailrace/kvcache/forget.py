"""What can be invalidated: one block, a prefix with all that continues it, a tenant, a model."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Forget", "Scope"]


class Scope(StrEnum):
    BLOCK = "block"
    PREFIX = "prefix"  # the block and all blocks behind it
    TENANT = "tenant"
    FINGERPRINT = "fingerprint"


@dataclass(frozen=True, slots=True)
class Forget:
    """`target`, of 16 bytes, is the name of a block, a tenant or a fingerprint, as in `BlockHead`."""

    scope: Scope
    target: bytes
