"""Which format a model speaks: recognised by its chat template and its vocabulary."""

import re
from collections.abc import Callable, Collection, Mapping

from tailrace.errors import SetupError
from tailrace.service.chat import ChatTemplate
from tailrace.service.formats.deepseek_markup import ASSISTANT, SEP
from tailrace.service.formats.deepseek_v3 import DeepSeekV3Encoder
from tailrace.service.formats.deepseek_v4 import DeepSeekV4Encoder
from tailrace.service.formats.deepseek_v31 import DeepSeekV31Encoder
from tailrace.service.formats.deepseek_v32 import DeepSeekV32Encoder
from tailrace.service.formats.dsml import DSML
from tailrace.service.formats.format import ChatEncoder, ChatFormat, ReasoningTags
from tailrace.service.formats.hermes import HermesEncoder
from tailrace.service.formats.llama3 import Llama3Encoder
from tailrace.service.formats.template import TemplateEncoder, TemplateOrTools
from tailrace.service.tokenizer import Tokenizer

__all__ = ["detect_format", "named_format"]


def detect_format(
    template: str | None,
    tokenizer: Tokenizer,
    special_tokens: Mapping[str, str] | None = None,
    architecture: str = "",
) -> ChatFormat | None:
    """None: nothing tells how the model wants to be talked to. Raises UnsupportedModel for an unreadable template."""
    added = tokenizer.vocabulary.added.keys()
    name = _untemplated_name(added, architecture) if template is None else _deepseek_name(template)
    if name:
        return _format(name, _DEEPSEEK[name](), reasons=name != "deepseek-v3")
    if template is None:
        return None
    family, reasons = _family(template), _reasons(template)
    encoder = TemplateEncoder(ChatTemplate(template, special_tokens), tokenizer.new_guard, reasons=reasons)
    if _KNOWS_TOOLS.search(template):
        return _format(family, encoder, reasons=reasons)
    bos = (special_tokens or {}).get("bos_token", "") if "bos_token" in template else ""
    return _format(family, TemplateOrTools(encoder, _with_tools(family, bos, template)), reasons=reasons)


def named_format(
    name: str, template: str | None, tokenizer: Tokenizer, special_tokens: Mapping[str, str] | None = None
) -> ChatFormat:
    """The format of that name, whatever the model's template says. Raises SetupError for one that cannot be."""
    if name in _DEEPSEEK:
        return _format(name, _DEEPSEEK[name](), reasons=name != "deepseek-v3")
    reasons = template is not None and _reasons(template)
    bos = (special_tokens or {}).get("bos_token", "") if template is not None and "bos_token" in template else ""
    if (encoder := _with_tools(name, bos, template or "")) is not None:
        return _format(name, encoder, reasons=reasons)
    if name not in _TOOL_STYLES:
        raise SetupError(f"there is no chat format {name!r}: name one of {', '.join(_TOOL_STYLES)}")
    if template is None:
        raise SetupError(f"the model has no chat template, which the chat format {name!r} goes by: name another")
    encoder = TemplateEncoder(ChatTemplate(template, special_tokens), tokenizer.new_guard, reasons=reasons)
    return _format(name, encoder, reasons=reasons)


def _format(name: str, encoder: ChatEncoder, *, reasons: bool) -> ChatFormat:
    tags = ReasoningTags() if reasons else None
    return ChatFormat(name, encoder, tags, _TOOL_STYLES[name], thinks=reasons and name not in _THINK_IF_ASKED)


# DeepSeek's own templates show no tools and lose the end of a single call, so these are written here instead.
_DEEPSEEK: Mapping[str, Callable[[], ChatEncoder]] = {
    "deepseek-r1": lambda: DeepSeekV3Encoder(reasons=True, opens=True),
    "deepseek-r1-0528": lambda: DeepSeekV3Encoder(reasons=True),
    "deepseek-v3": DeepSeekV3Encoder,
    "deepseek-v3.1": DeepSeekV31Encoder,
    "deepseek-v3.2": DeepSeekV32Encoder,
    "deepseek-v4": DeepSeekV4Encoder,
}
_TOOL_STYLES = {
    "deepseek-r1": "deepseek_v3",
    "deepseek-r1-0528": "deepseek_v3",
    "deepseek-v3": "deepseek_v3",
    "deepseek-v3.1": "deepseek_v31",
    "deepseek-v3.2": "deepseek_v32",
    "deepseek-v4": "deepseek_v4",
    "hermes": "hermes",
    "llama3": "llama3",
    "template": "",
}
_THINK_IF_ASKED = {"deepseek-v3.1", "deepseek-v3.2"}
_KNOWS_TOOLS = re.compile(r"(?<![</\w])tools\b(?!>)")  # the variable, not a tag
_OPENS = re.compile(r"assistant(?:\\n|\n)<think>")  # the end of a prompt, written either way
_OTHER_CALLS = ("<function=", "<arg_key>")  # between tags such as Hermes', but no JSON


def _untemplated_name(added: Collection[str], architecture: str) -> str:
    """The format of a model without a template, as those come whose prompts no template could write; empty: none."""
    if {DSML, "<｜latest_reminder｜>"}.issubset(added):
        return "deepseek-v4"
    return "deepseek-v3.2" if architecture == "deepseek_v32" or DSML in added else ""


def _deepseek_name(template: str) -> str:
    """The format of DeepSeek's own that a template writes; empty: none."""
    if ASSISTANT not in template:
        return ""
    if DSML in template:
        return "deepseek-v3.2" if "function_calls" in template else "deepseek-v4"
    if SEP in template and "```json" not in template:
        return "deepseek-v3.1"
    if _reasons(template):
        return "deepseek-r1" if f"{ASSISTANT}<think>" in template else "deepseek-r1-0528"
    return "deepseek-v3" if SEP in template else ""


def _family(template: str) -> str:
    """Whose markup calls have."""
    if "<tool_call>" in template:
        return "template" if any(mark in template for mark in _OTHER_CALLS) else "hermes"
    if "<|python_tag|>" in template or ("<|start_header_id|>" in template and '"parameters"' in template):
        return "llama3"
    if not _KNOWS_TOOLS.search(template):
        for header, family in (("<|im_start|>", "hermes"), ("<|start_header_id|>", "llama3")):
            if header in template:
                return family
    return "template"


def _with_tools(family: str, bos: str, template: str) -> ChatEncoder | None:
    """Who writes prompts with tools for a model whose template knows none."""
    reasons = _reasons(template)
    if family == "hermes":
        return HermesEncoder(bos, reasons, opens=_OPENS.search(template) is not None)
    return Llama3Encoder(bos) if family == "llama3" and not reasons else None


def _reasons(template: str) -> bool:
    return "</think>" in template or "<think>" in template
