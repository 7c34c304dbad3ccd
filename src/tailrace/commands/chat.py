"""`tailrace chat`: talk to a model in the terminal."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeFloat, NormFloat, PositiveInt

from tailrace.commands.answer import Sampling, open_answerer
from tailrace.commands.conversation import Conversation
from tailrace.commands.json_file import read_schema, read_tools
from tailrace.commands.json_file import tool_choice as settle_choice
from tailrace.commands.lazy import LazyExpertsOption
from tailrace.commands.lazy import lazy_experts as settle_lazy
from tailrace.commands.precision import PrecisionWords
from tailrace.commands.screen import Screen

__all__ = ["chat"]

chat = App(
    name="chat",
    help_epilogue="Examples:\n"
    "  tailrace chat\n"
    '  tailrace chat --url http://127.0.0.1:8000 --system "Answer in one sentence."\n'
    "  tailrace chat --tools weather.json --tool-choice get_weather\n"
    '  echo "What is a tailrace?" | tailrace chat',
)


@chat.default
def run(
    model: str | None = None,
    /,
    *,
    quantize: PrecisionWords | None = None,
    lazy_experts: LazyExpertsOption = None,
    url: str | None = None,
    api_key: Annotated[str | None, Parameter(env_var="OPENAI_API_KEY")] = None,
    system: str | None = None,
    max_tokens: PositiveInt = 1024,
    temperature: NonNegativeFloat = 0.7,
    top_p: NormFloat | None = None,
    seed: int | None = None,
    thinking: Annotated[bool | None, Parameter(negative="--no-thinking")] = None,
    tools: Path | None = None,
    tool_choice: str | None = None,
    schema: Path | None = None,
) -> None:
    """Talk to a model in the terminal. In a pipe, each line of input is a message, or what a call of a tool gave.

    Parameters
    ----------
    model
        A GGUF file, a Hugging Face directory, a hub id or tiny-deepseek; with --url, a name [the default model].
    quantize
        As for 'tailrace serve', of a model that is loaded here.
    lazy_experts
        As for 'tailrace serve': load an expert when it is first chosen, and keep as many as fit into what is given.
    url
        Ask this server instead of loading the model here.
    api_key
        Sent as a bearer token, with --url.
    system
        How the model should behave.
    max_tokens
        The most tokens of an answer.
    temperature
        0 takes the likeliest token each time.
    top_p
        Choose among the likeliest tokens with this much probability together.
    seed
        Repeats a random choice.
    thinking
        Let the model think before it answers, or not [as the model is used to]. Thoughts are shown dim.
    tools
        A JSON file with a list of functions that the model may call, as the API has them. Calls are shown in boxes; you
        type what they give.
    tool_choice
        auto, none, required, or the name of the function that is to be called.
    schema
        A JSON schema, in a file, that answers follow.
    """
    screen = Screen(is_interactive=sys.stdin.isatty() and sys.stdout.isatty())
    with open_answerer(model, url, api_key, quantize, settle_lazy(lazy_experts)) as answerer:
        sampling = Sampling(
            max_tokens,
            temperature,
            top_p,
            seed,
            tools=None if tools is None else read_tools(tools),
            tool_choice=None if tool_choice is None else settle_choice(tool_choice),
            thinking=thinking,
            schema=None if schema is None else read_schema(schema),
        )
        Conversation(answerer, sampling, system, screen).run()
