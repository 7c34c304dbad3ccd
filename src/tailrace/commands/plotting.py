"""Figures for people, as files. Whoever wants none need not have what draws them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, Token

from tailrace.errors import SetupError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PlotFile", "draw"]

_SUFFIXES = (".png", ".svg")


def _convert(_type: Any, tokens: Any) -> Path:
    token: Token = tokens[0]
    path = Path(token.value)
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"{token.value!r} is no picture: its name must end in {' or '.join(_SUFFIXES)}")
    return path


PlotFile = Annotated[Path, Parameter(converter=_convert)]
"""A parameter that takes the name of a PNG or SVG file."""


def draw(path: Path, size_inches: tuple[float, float], fill: Callable[["Figure"], None]) -> None:
    """Have `fill` draw into a figure, and write it. Raises SetupError without matplotlib, or where it cannot be."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415  (an extra, and slow to load)
        from matplotlib.figure import Figure  # noqa: PLC0415  (as above)
    except ImportError:
        raise SetupError("--plot needs matplotlib: pip install 'tailrace[plot]'") from None
    with rc_context({"svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=size_inches, layout="constrained")
        fill(figure)
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise SetupError(f"cannot write {path}: {error.strerror}") from error
