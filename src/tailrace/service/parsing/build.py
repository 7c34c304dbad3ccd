"""Which stages take an answer apart: what follows from its format, its form and the stop strings of its request."""

from collections.abc import Callable, Sequence
from functools import partial

from tailrace.service.answer_form import AnswerForm
from tailrace.service.formats.format import ReasoningTags
from tailrace.service.parsing.machine import TextMachine
from tailrace.service.parsing.reasoning import ReasoningStage
from tailrace.service.parsing.tools import call_markers, call_markup, call_stage
from tailrace.service.stop import StopMatcher, StopStrings

__all__ = ["machine_factory", "markup_strings"]

_CALL_CHARACTERS = "<\n{["  # in whatever style calls are written, one of them is in what begins one


def machine_factory(
    reasoning: ReasoningTags | None, tool_style: str, form: AnswerForm, stops: Sequence[str], *, include_stop: bool
) -> Callable[[], TextMachine] | None:
    """Makes the machine of each choice of a request; None: there is nothing to take apart.

    `reasoning` and `tool_style` are those of the format that `form` names. Markup of calls counts where `form` has
    tools.
    """
    tags, style = _markup(reasoning, tool_style, form)
    strings = StopStrings(stops) if stops else None
    if tags is None and not style and strings is None:
        return None
    return partial(_make, tags, style, strings, include_stop, form.opened)


def markup_strings(reasoning: ReasoningTags | None, tool_style: str, form: AnswerForm) -> tuple[str, ...]:
    """What `machine_factory` looks for: tokens that are part of it may not be hidden."""
    tags, style = _markup(reasoning, tool_style, form)
    return ((tags.begin, tags.end) if tags is not None else ()) + (call_markup(style) if style else ())


def _markup(reasoning: ReasoningTags | None, tool_style: str, form: AnswerForm) -> tuple[ReasoningTags | None, str]:
    """The markup that counts."""
    if not form.format_name:
        return None, ""
    return reasoning, tool_style if form.has_tools else ""


def _make(
    tags: ReasoningTags | None, style: str, strings: StopStrings | None, include_stop: bool, opened: str
) -> TextMachine:
    return TextMachine(
        None if tags is None else ReasoningStage(tags, call_markers(style) if style else ()),
        call_stage(style) if style else None,
        None if strings is None else StopMatcher(strings, include_stop=include_stop),
        opened=opened,
        call_characters=frozenset(_CALL_CHARACTERS if style else ""),
    )
