"""Whether and how much to think, in the three places where clients say so. What contradicts itself is refused by name.

    thinking             on or off, in whatever words the format has
    reasoning_effort     how much; "none" means off
    chat_template_kwargs thinking, enable_thinking and reasoning_effort in it: they reach the template besides

A front end hands all that it has read to `thinking_wish`, or lets `chat.chat_prompt` do so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tailrace.errors import InvalidRequest

__all__ = ["EFFORTS", "Effort", "ThinkingWish", "thinking_wish"]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[str, ...] = get_args(Effort)
_OFF = "none"

_SWITCHES = ("thinking", "enable_thinking")  # what templates call it
_EFFORT = "reasoning_effort"


@dataclass(frozen=True, slots=True)
class ThinkingWish:
    """As in `ChatPrompt`: None leaves it to the model's format. An effort alone does not turn thinking on."""

    thinking: bool | None = None
    effort: str | None = None


def thinking_wish(
    thinking: bool | None,
    effort: str | None,
    template_args: Mapping[str, object] | None = None,
    *,
    thinking_param: str = "thinking",
    effort_param: str = _EFFORT,
    args_param: str = "chat_template_kwargs",
) -> ThinkingWish:
    """Raises InvalidRequest for an effort that is none, and for wishes that contradict each other.

    The params are what the client calls them, for errors.
    """
    switches, efforts = dict[str, bool](), dict[str, str]()
    if thinking is not None:
        switches[thinking_param] = thinking
    if effort is not None:
        efforts[effort_param] = effort
    _read_args(template_args or {}, args_param, switches, efforts)
    if effort is not None and effort not in EFFORTS:
        shown = f"{effort_param} is {effort[:32]!r}; it is one of {', '.join(EFFORTS)}"
        raise InvalidRequest(shown, param=effort_param)
    return _agreed(switches, efforts)


def _agreed(switches: Mapping[str, bool], efforts: Mapping[str, str]) -> ThinkingWish:
    """What all of them say, each by its place."""
    _check_same(efforts)
    switches = {**switches, **{param: False for param, word in efforts.items() if word == _OFF}}
    _check_same(switches)
    thinking = next(iter(switches.values()), None)
    effort_param = next((param for param, word in efforts.items() if word != _OFF), None)
    if effort_param is None:
        return ThinkingWish(thinking)
    if thinking is False:
        switch, effort = next(iter(switches)), efforts[effort_param]
        shown = f"{effort_param} is {effort!r}, but {switch} turns thinking off; send one"
        raise InvalidRequest(shown, param=effort_param)
    return ThinkingWish(thinking, efforts[effort_param])


def _read_args(args: Mapping[str, object], place: str, switches: dict[str, bool], efforts: dict[str, str]) -> None:
    for name in _SWITCHES:
        value = args.get(name)
        if value is None:
            continue
        if not isinstance(value, bool):
            raise InvalidRequest(f"{place}.{name} must be true or false", param=f"{place}.{name}")
        switches[f"{place}.{name}"] = value
    effort = args.get(_EFFORT)
    if isinstance(effort, str) and effort in EFFORTS:  # templates may have words of their own
        efforts[f"{place}.{_EFFORT}"] = effort


def _check_same(wishes: Mapping[str, bool] | Mapping[str, str]) -> None:
    """All say the same as the first."""
    first = next(iter(wishes), "")
    for param, wish in wishes.items():
        if wish != wishes[first]:
            raise InvalidRequest(
                f"{first} ({_shown(wishes[first])}) and {param} ({_shown(wish)}) contradict each other; send one",
                param=param,
            )


def _shown(wish: bool | str) -> str:
    return wish if isinstance(wish, str) else {True: "on", False: "off"}[wish]
