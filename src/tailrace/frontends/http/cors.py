"""Which web pages may call the server from a browser (the Fetch standard's CORS protocol). By default: none.

Keys are sent in headers, never as cookies: no answer allows credentials.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tailrace.errors import SetupError
from tailrace.http_url import split_http_url

__all__ = ["Cors", "check_origins"]

Header = tuple[bytes, bytes]
ANY = "*"

_METHODS = b"GET, POST"
_ASKED = (
    b"authorization, content-type, x-api-key, anthropic-version, anthropic-beta, x-request-id, last-event-id, "
    b"x-llm-d-slo-ttft-ms, x-llm-d-slo-tpot-ms, x-llm-d-inference-objective, x-llm-d-inference-fairness-id, "
    b"x-request-timeout-ms, traceparent, tracestate"
)
_SHOWN = (
    b"x-request-id, x-service-class, server-timing, retry-after, retry-after-ms, x-ratelimit-limit-requests, "
    b"x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, "
    b"x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, traceparent"
)
_MAX_AGE_S = b"600"


def check_origins(origins: Iterable[str]) -> None:
    """Raises SetupError for what no browser would send as an origin."""
    for origin in origins:
        parts = split_http_url(origin)
        if origin != ANY and (parts is None or origin != f"{parts.scheme}://{parts.netloc}"):
            raise SetupError(f"--cors-origin {origin!r} is no origin: write https://app.example.com, or * for all")


@dataclass(frozen=True, slots=True)
class Cors:
    """`origins` as browsers write them, or "*" among them; none: no page may."""

    origins: frozenset[str] = frozenset()

    def headers(self, asked: Mapping[bytes, bytes]) -> list[Header]:
        """What every answer to this request has besides. Caches must know that it depends on the origin."""
        if not self.origins:
            return []
        origin = asked.get(b"origin")
        if origin is None or not self._allows(origin):
            return [(b"vary", b"origin")]
        return [
            (b"vary", b"origin"),
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _SHOWN),
        ]

    def preflight(self, method: str, asked: Mapping[bytes, bytes]) -> list[Header] | None:
        """What to answer to a browser that asks before it sends a request; None if this is no such question."""
        origin = asked.get(b"origin")
        if method != "OPTIONS" or b"access-control-request-method" not in asked or origin is None:
            return None
        if not self._allows(origin):
            return None
        return [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _ASKED),
            (b"access-control-max-age", _MAX_AGE_S),
        ]

    def _allows(self, origin: bytes) -> bool:
        return ANY in self.origins or origin.decode("latin-1") in self.origins
