"""The key of those who may look into the cache and empty it."""

import hmac
from typing import Protocol

from tailrace.errors import RequestError
from tailrace.frontends.api_keys import Unauthorized

__all__ = ["AdminKey", "Caller", "Forbidden"]


class Forbidden(RequestError):
    status = 403
    code = "admin_key_not_set"


class Caller(Protocol):
    """Whoever asks, over whichever protocol."""

    @property
    def bearer_token(self) -> bytes | None: ...


class AdminKey:
    def __init__(self, key: str | None) -> None:
        self._key = None if key is None else key.encode()

    def check(self, caller: Caller) -> None:
        """Raises Forbidden when no key is set, Unauthorized unless the request has it. Takes as long for any key."""
        if self._key is None:
            raise Forbidden(
                "this needs an admin key, and the server has none: start it with TAILRACE_ADMIN_KEY in its "
                "environment, or with --admin-key-file"
            )
        if not hmac.compare_digest(caller.bearer_token or b"", self._key):
            raise Unauthorized("send the admin key as 'Authorization: Bearer KEY'")
