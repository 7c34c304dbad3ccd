"""Options as a generation, for an engine in this process: to a server they go as they are."""

from typing import Any
from uuid import uuid4

from tailrace.client.options import Options, PromptLike
from tailrace.errors import InvalidRequest
from tailrace.frontends.chat_options import (
    CHAT_OPTIONS,
    chat_prompt_of,
    format_wished,
    read_chat_options,
    refuse_chat_options,
)
from tailrace.frontends.output_format import check_obeyable
from tailrace.service.api import (
    ANY_CALLS,
    ChatPrompt,
    Generation,
    InfillPrompt,
    OutputFormat,
    Prompt,
    Standing,
    TextPrompt,
)
from tailrace.types import SamplingParams

__all__ = ["generation_of"]


def generation_of(prompt: PromptLike, options: Options) -> Generation:
    """Raises InvalidRequest with the name of the option; TypeError for one that there is not."""
    settings: dict[str, Any] = {"max_tokens": 0, **options}
    stop, seed = settings.pop("stop", ()), settings.pop("seed", None)
    asked, output_format = _prompt(prompt, settings)
    standing = Standing(settings.pop("service_class", ""), settings.pop("tenant", ""))
    settings["logit_bias"] = tuple(dict(settings.get("logit_bias", {})).items())
    settings["stop_token_ids"] = tuple(settings.get("stop_token_ids", ()))
    sampling = SamplingParams(**settings)
    choice = asked.tool_choice if isinstance(asked, ChatPrompt) else ANY_CALLS
    check_obeyable(output_format, choice, min_tokens=sampling.min_tokens, ignore_eos=sampling.ignore_eos)
    return Generation(
        request_id=uuid4().hex,
        prompt=asked,
        sampling=sampling,
        seed=seed,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        standing=standing,
        output_format=output_format,
    )


def _prompt(prompt: PromptLike, settings: dict[str, Any]) -> tuple[Prompt, OutputFormat | None]:
    """Takes out of `settings` what belongs to the prompt, and what its answer looks like."""
    given = {name: settings.pop(name) for name in CHAT_OPTIONS & settings.keys()}
    suffix = settings.pop("suffix", "")
    if isinstance(prompt, str):
        options = read_chat_options(given)
        refuse_chat_options(options)
        return _text_prompt(prompt, suffix), format_wished(options)
    if suffix:
        raise InvalidRequest("suffix is text, and goes with a prompt of text", param="suffix")
    options = read_chat_options({"messages": [dict(message) for message in prompt], **given})
    return chat_prompt_of(options), format_wished(options)


def _text_prompt(prompt: str, suffix: object) -> Prompt:
    if not isinstance(suffix, str):
        raise InvalidRequest("suffix is text, and goes with a prompt of text", param="suffix")
    return InfillPrompt(prompt, suffix) if suffix else TextPrompt(prompt)
