"""What the requests of Anthropic's clients have in common: a version, a header for the key, and one for the id."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.exchange import Exchange

__all__ = ["AnthropicEntrance", "anthropic_key"]

# Of what is served here both say the same, but that the later one has no temperature; here it is obeyed in both.
_VERSIONS = (b"2023-06-01", b"2026-10-21")


@dataclass(frozen=True, slots=True)
class AnthropicEntrance:
    """A handler for who speaks a version that is known. `anthropic-beta` names features, whose fields say the same."""

    handler: Callable[[Exchange], Awaitable[None]]

    async def __call__(self, exchange: Exchange) -> None:
        exchange.more_headers.append((b"request-id", exchange.request_id.encode()))
        version = exchange.headers.get(b"anthropic-version", _VERSIONS[-1])
        if version not in _VERSIONS:
            raise InvalidRequest(
                f"the header anthropic-version is {version.decode('latin-1')[:32]!r}; this server speaks "
                f"{b' and '.join(_VERSIONS).decode()}",
                param="anthropic-version",
            )
        await self.handler(exchange)


def anthropic_key(exchange: Exchange) -> bytes | None:
    """What was sent as 'x-api-key: KEY', or else as a bearer token."""
    return exchange.headers.get(b"x-api-key") or exchange.bearer_token
