"""Addresses of the web that operators write, taken apart without an error."""

from urllib.parse import SplitResult, urlsplit

__all__ = ["split_http_url"]


def split_http_url(url: str) -> SplitResult | None:
    """None: it is none, or has no host, or a port that cannot be."""
    try:
        parts = urlsplit(url)
        is_whole = parts.port is None or parts.port > 0
    except ValueError:  # half a bracket, or a port beyond 65535
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname and is_whole else None
