"""The control tokens of DeepSeek's formats, and the page in a system text that tells of tools."""

from collections.abc import Sequence

from tailrace.service.formats.conversation import as_json
from tailrace.service.formats.writer import PromptWriter
from tailrace.service.tools import Tool

__all__ = [
    "ASSISTANT",
    "BOS",
    "CALLS_BEGIN",
    "CALLS_END",
    "CALL_BEGIN",
    "CALL_END",
    "EOS",
    "OUTPUTS_BEGIN",
    "OUTPUTS_END",
    "OUTPUT_BEGIN",
    "OUTPUT_END",
    "SEP",
    "USER",
    "write_system",
]

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, ASSISTANT = "<｜User｜>", "<｜Assistant｜>"
CALLS_BEGIN, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL_BEGIN, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
OUTPUTS_BEGIN, OUTPUTS_END = "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>"
OUTPUT_BEGIN, OUTPUT_END = "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"
SEP = "<｜tool▁sep｜>"


def write_system(writer: PromptWriter, system: str, tools: Sequence[Tool], how_to_call: str) -> None:
    """The system text and, behind it, a section for each tool in the layout of DeepSeek V3.1's model card."""
    writer.say(system)
    if not tools:
        return
    writer.write("\n\n" if system else "")
    writer.write("## Tools\nYou have access to the following tools:\n\n")
    for place, tool in enumerate(tools):
        writer.write("### ")
        writer.say(tool.name)
        writer.write("\nDescription: ")
        writer.say(tool.description)
        writer.write("\n\nParameters: ")
        writer.say(as_json(tool.parameters, f"tools[{place}].function.parameters"))
        writer.write("\n\n")
    writer.write(how_to_call)
