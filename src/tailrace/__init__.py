"""Tailrace: a streaming inference server for DeepSeek-family models. As a library, all you need is `Engine`."""

from typing import TYPE_CHECKING

from tailrace.version import __version__

if TYPE_CHECKING:
    from tailrace.config import EngineConfig as EngineConfig
    from tailrace.library import Completion as Completion
    from tailrace.library import Engine as Engine

__all__ = ["Completion", "Engine", "EngineConfig", "__version__"]


def __getattr__(name: str) -> object:
    """Load the library on first use: the command line must not pay for it when it only prints its help."""
    if name == "EngineConfig":
        from tailrace.config import EngineConfig  # noqa: PLC0415

        return EngineConfig
    if name in ("Completion", "Engine"):
        from tailrace import library  # noqa: PLC0415

        return getattr(library, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
