"""Who calls, and under which name: what headers say whichever protocol carries them. Their names are in lower case."""

import re
from collections.abc import Mapping

__all__ = ["bearer_token", "given_request_id", "safe_request_id"]

Headers = Mapping[bytes, bytes]

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def bearer_token(headers: Headers) -> bytes | None:
    """What was sent as 'Authorization: Bearer TOKEN'."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else None


def given_request_id(headers: Headers) -> str | None:
    """The client's x-request-id, if it is safe to echo and to log."""
    return safe_request_id(headers.get(b"x-request-id", b"").decode("latin-1"))


def safe_request_id(given: str) -> str | None:
    """The same, if it may be echoed and logged."""
    return given if _REQUEST_ID.fullmatch(given) else None
