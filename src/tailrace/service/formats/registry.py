"""Which format a model speaks: recognised by its chat template and its vocabulary."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tailrace.errors import InvalidRequest
from tailrace.service.chat import ChatTemplate
from tailrace.service.formats.deepseek_markup import ASSISTANT, SEP
from tailrace.service.formats.deepseek_v3 import DeepSeekV3Encoder
from tailrace.service.formats.deepseek_v31 import DeepSeekV31Encoder
from tailrace.service.formats.format import ChatEncoder, ChatFormat, ReasoningTags
from tailrace.service.formats.hermes import HermesEncoder
from tailrace.service.formats.template import TemplateEncoder, TemplateOrTools
from tailrace.service.tokenizer import Tokenizer

__all__ = ["AnswerMarkup", "answer_markup", "detect_format", "format_names"]


@dataclass(frozen=True, slots=True)
class AnswerMarkup:
    """What the answers of a format may have in them: all that is needed to take one apart."""

    reasoning: ReasoningTags | None = None
    tool_style: str = ""


_THINKS = ReasoningTags()
# A model that does not think and writes <think> means the word, so whether it does is part of a format's name.
_MARKUP: Mapping[str, AnswerMarkup] = {
    "deepseek-r1": AnswerMarkup(_THINKS, "deepseek_v3"),
    "deepseek-r1-0528": AnswerMarkup(_THINKS, "deepseek_v3"),
    "deepseek-v3": AnswerMarkup(None, "deepseek_v3"),
    "deepseek-v3.1": AnswerMarkup(_THINKS, "deepseek_v31"),
    "hermes": AnswerMarkup(None, "hermes"),
    "hermes-thinking": AnswerMarkup(_THINKS, "hermes"),
    "llama3": AnswerMarkup(None, "llama3"),
    "llama3-thinking": AnswerMarkup(_THINKS, "llama3"),
    "template": AnswerMarkup(),
    "template-thinking": AnswerMarkup(_THINKS),
}


def format_names() -> tuple[str, ...]:
    return tuple(_MARKUP)


def answer_markup(name: str) -> AnswerMarkup:
    """Of a format by its name, which an answer that is taken up again brings with it."""
    try:
        return _MARKUP[name]
    except KeyError as error:
        raise InvalidRequest(
            f"there is no chat format {name[:64]!r}, but {', '.join(_MARKUP)}", param="model"
        ) from error


def detect_format(
    template: str | None,
    tokenizer: Tokenizer,
    special_tokens: Mapping[str, str] | None = None,
    architecture: str = "",
) -> ChatFormat | None:
    """None: nothing tells how the model wants to be talked to. Raises UnsupportedModel for an unreadable template."""
    if name := _deepseek_name(template, architecture):
        return _format(name, _DEEPSEEK[name]())
    if template is None:
        return None
    encoder = TemplateEncoder(ChatTemplate(template, special_tokens), tokenizer.new_guard, reasons=_reasons(template))
    family = _family(template)
    name = f"{family}-thinking" if _reasons(template) else family
    if _KNOWS_TOOLS.search(template):
        return _format(name, encoder)
    bos = (special_tokens or {}).get("bos_token", "") if "bos_token" in template else ""
    return _format(name, TemplateOrTools(encoder, _with_tools(family, bos, template)))


# DeepSeek's own templates show no tools and lose the end of a single call, so these are written here instead.
_DEEPSEEK: Mapping[str, Callable[[], ChatEncoder]] = {
    "deepseek-r1": lambda: DeepSeekV3Encoder(reasons=True, opens=True),
    "deepseek-r1-0528": lambda: DeepSeekV3Encoder(reasons=True),
    "deepseek-v3": DeepSeekV3Encoder,
    "deepseek-v3.1": DeepSeekV31Encoder,
}
_THINKS_UNASKED = {"deepseek-r1", "deepseek-r1-0528", "hermes-thinking", "llama3-thinking", "template-thinking"}
_KNOWS_TOOLS = re.compile(r"(?<![</\w])tools\b(?!>)")  # the variable, not a tag
_OTHER_CALLS = ("<function=", "<arg_key>")  # between tags such as Hermes', but no JSON


def _format(name: str, encoder: ChatEncoder) -> ChatFormat:
    markup = _MARKUP[name]
    return ChatFormat(name, encoder, markup.reasoning, markup.tool_style, thinks=name in _THINKS_UNASKED)


def _deepseek_name(template: str | None, architecture: str) -> str:
    """The format of DeepSeek's own that a template is of; empty: of none."""
    if template is None or ASSISTANT not in template:
        return ""
    if SEP not in template or "```json" in template:
        if _reasons(template):
            return "deepseek-r1" if "<think>" in template else "deepseek-r1-0528"
        return "deepseek-v3" if SEP in template else ""
    return "deepseek-v3.1"


def _family(template: str) -> str:
    """Whose markup calls have."""
    if "<tool_call>" in template:
        return "template" if any(mark in template for mark in _OTHER_CALLS) else "hermes"
    if "<|python_tag|>" in template or ("<|start_header_id|>" in template and '"parameters"' in template):
        return "llama3"
    if "<|im_start|>" in template and not _KNOWS_TOOLS.search(template):
        return "hermes"
    return "template"


def _with_tools(family: str, bos: str, template: str) -> ChatEncoder | None:
    return HermesEncoder(bos, _reasons(template)) if family == "hermes" else None


def _reasons(template: str) -> bool:
    return "</think>" in template or "<think>" in template
