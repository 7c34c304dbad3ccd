"""Where keys come from: a file, or the environment. Never an argument, which every user of a machine sees."""

import os
from pathlib import Path

from tailrace.errors import SetupError

__all__ = ["read_admin_key", "read_api_key"]

_ADMIN, _API = "TAILRACE_ADMIN_KEY", "TAILRACE_API_KEY"
_MIN_CHARS = 16  # a key that can be guessed is none
_MAX_CHARS = 512


def read_admin_key(path: Path | None) -> str | None:
    """The key in the file, else in the environment; None when there is neither. Raises SetupError for unfit keys."""
    if path is None:
        return _from_environment(_ADMIN, "admin key")
    try:
        with path.open(encoding="ascii") as file:
            given = file.read(_MAX_CHARS + 2)
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read the admin key from {path}: {error}; check --admin-key-file") from None
    return _checked(given, str(path), "admin key")


def read_api_key() -> str | None:
    """The one key of clients in the environment; None when there is none. Raises SetupError for an unfit key."""
    return _from_environment(_API, "API key")


def _from_environment(variable: str, what: str) -> str | None:
    given = os.environ.get(variable)
    return None if given is None else _checked(given, variable, what)


def _checked(given: str, source: str, what: str) -> str:
    key = given.strip()
    if not (_MIN_CHARS <= len(key) <= _MAX_CHARS and key.isascii() and key.isprintable() and " " not in key):
        raise SetupError(
            f"the {what} in {source} must be {_MIN_CHARS} to {_MAX_CHARS} visible ASCII characters without spaces: "
            "make one with 'openssl rand -hex 16'"
        )
    return key
