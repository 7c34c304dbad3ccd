"""Calls as DeepSeek writes them since V3.2: a tag a parameter, with text as it is and all else as JSON."""

import json
from collections.abc import Sequence

from tailrace.service.formats.conversation import Call, as_json
from tailrace.service.formats.writer import PromptWriter

__all__ = ["DSML", "write_calls"]

DSML = "｜DSML｜"


def write_calls(writer: PromptWriter, calls: Sequence[Call], block: str) -> None:
    """All calls of an answer, in one block of that name."""
    if not calls:
        return
    writer.write(f"\n\n<{DSML}{block}>\n")
    for call in calls:
        _write_call(writer, call)
    writer.write(f"</{DSML}{block}>")


def _write_call(writer: PromptWriter, call: Call) -> None:
    writer.write(f'<{DSML}invoke name="')
    writer.say(call.name)
    writer.write('">\n')
    for place, (name, value) in enumerate(_parameters(call.arguments).items()):
        is_text = isinstance(value, str)
        writer.write(("\n" if place else "") + f'<{DSML}parameter name="')
        writer.say(name)
        writer.write(f'" string="{"true" if is_text else "false"}">')
        writer.say(str(value) if is_text else as_json(value, "arguments"))
        writer.write(f"</{DSML}parameter>")
    writer.write(f"\n</{DSML}invoke>\n")


def _parameters(arguments: str) -> dict[str, object]:
    """What is no JSON of an object is shown as one parameter, as DeepSeek's own encoder does."""
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {"arguments": arguments}
