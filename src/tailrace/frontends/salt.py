"""The salt of a request's cached blocks, made of what clients say of themselves and of their end users."""

__all__ = ["tenant_salt"]


def tenant_salt(cache_salt: str | None, user_id: str | None) -> str:
    """Who shares cached blocks with whom: end users of one client do not either."""
    if user_id is None:
        return cache_salt or ""
    return f"{cache_salt or ''}|user_id={user_id}"
