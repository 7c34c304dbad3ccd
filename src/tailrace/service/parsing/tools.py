"""The styles in which models write tool calls, and what reads each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tailrace.service.parsing.deepseek_calls import CALL_BEGIN, CALLS_BEGIN, CONTROL_TOKENS, v3_calls, v31_calls
from tailrace.service.parsing.dsml_calls import DsmlCalls
from tailrace.service.parsing.dsml_tags import OPENING
from tailrace.service.parsing.hermes_calls import CALL_TAG, END_TAG, HermesCalls
from tailrace.service.parsing.llama_calls import PYTHON_TAG, LlamaCalls
from tailrace.service.parsing.segments import Stage

__all__ = ["TOOL_STYLES", "call_markers", "call_markup", "call_stage"]


@dataclass(frozen=True, slots=True)
class _Style:
    stage: Callable[[], Stage]
    markers: tuple[str, ...]
    other_markup: tuple[str, ...] = ()


_STYLES: Mapping[str, _Style] = {
    "deepseek_v3": _Style(v3_calls, (CALLS_BEGIN, CALL_BEGIN), CONTROL_TOKENS),
    "deepseek_v31": _Style(v31_calls, (CALLS_BEGIN, CALL_BEGIN), CONTROL_TOKENS),
    "deepseek_v32": _Style(DsmlCalls, (f"{OPENING}function_calls>", f"{OPENING}invoke")),
    "deepseek_v4": _Style(DsmlCalls, (f"{OPENING}tool_calls>", f"{OPENING}invoke")),
    "deepseek_v41": _Style(DsmlCalls, (f"{OPENING} calls>", f"{OPENING} invoke")),
    "hermes": _Style(HermesCalls, (CALL_TAG,), (END_TAG,)),
    "llama3": _Style(LlamaCalls, (PYTHON_TAG,)),
}

TOOL_STYLES = tuple(_STYLES)


def call_stage(style: str) -> Stage:
    """What takes the calls out of one answer."""
    return _STYLES[style].stage()


def call_markers(style: str) -> tuple[str, ...]:
    """With what calls begin. Where one stands, no reasoning goes on."""
    return _STYLES[style].markers


def call_markup(style: str) -> tuple[str, ...]:
    """All that the stage looks for."""
    return _STYLES[style].markers + _STYLES[style].other_markup
