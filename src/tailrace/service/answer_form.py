"""How the text of an answer is taken apart into reasoning, answer and calls. Follows from its prompt."""

from dataclasses import dataclass

__all__ = ["ALL_TEXT", "AnswerForm"]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """`format_name`: whose markup is in it (a name of `formats.registry`); empty: it is all text.

    `opened` is the text of the answer that the prompt has already, such as `<think>`. Markup of calls counts where
    there are tools.
    """

    format_name: str = ""
    opened: str = ""
    has_tools: bool = False


ALL_TEXT = AnswerForm()
