"""Tailrace: a streaming inference server for DeepSeek-family models. As a library, all you need is `Engine`.

Or `connect`, to a server that runs on this machine.
"""

from typing import TYPE_CHECKING

from tailrace.version import __version__

if TYPE_CHECKING:
    from tailrace.client.client import Client as Client
    from tailrace.client.client import connect as connect
    from tailrace.client.options import Completion as Completion
    from tailrace.config import EngineConfig as EngineConfig
    from tailrace.levels.config import LevelsConfig as LevelsConfig
    from tailrace.library import Engine as Engine

__all__ = ["Client", "Completion", "Engine", "EngineConfig", "LevelsConfig", "__version__", "connect"]


def __getattr__(name: str) -> object:
    """Load the library on first use: the command line must not pay for it when it only prints its help."""
    if name == "EngineConfig":
        from tailrace.config import EngineConfig  # noqa: PLC0415

        return EngineConfig
    if name == "LevelsConfig":
        from tailrace.levels.config import LevelsConfig  # noqa: PLC0415

        return LevelsConfig
    if name == "Completion":
        from tailrace.client.options import Completion  # noqa: PLC0415

        return Completion
    if name in ("Client", "connect"):
        from tailrace.client import client  # noqa: PLC0415

        return getattr(client, name)
    if name == "Engine":
        from tailrace.library import Engine  # noqa: PLC0415

        return Engine
    raise AttributeError(f"module {__name__} has no attribute {name}")
