"""Prompts to compute ahead, as lines of a file: what an operator lists, and what the server keeps of its own.

{"messages": [{"role": "system", "content": "You are ..."}]}
{"prompt": "Once upon a time", "cache_salt": "tenant-7", "user_id": "somebody"}
{"token_ids": [1, 2, 3], "num_uses": 12.5, "model": "default"}
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from tailrace.errors import InvalidRequest, SetupError
from tailrace.frontends.chat import Message, chat_prompt
from tailrace.frontends.json_lines import read_lines
from tailrace.frontends.salt import tenant_salt
from tailrace.frontends.values import Salt, TokenId
from tailrace.service.api import ListedPrompt, Prompt, TextPrompt, TokenPrompt

__all__ = ["check_writable", "read_prompts", "write_prompts"]

MAX_FILE_BYTES = 64 << 20
MAX_LINE_BYTES = 8 << 20
_MAX_KEPT_SALT_CHARS = 2048  # a cache_salt and a user_id in one

_TokenIds = Annotated[list[TokenId], msgspec.Meta(min_length=1)]


class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    prompt: Annotated[str, msgspec.Meta(min_length=1)] | _TokenIds | None = None
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)] | None = None
    token_ids: _TokenIds | None = None
    cache_salt: Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_KEPT_SALT_CHARS)] | None = None
    user_id: Salt | None = None
    num_uses: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    model: str | None = None  # whose tokens they are; None: any


def read_prompts(path: Path) -> list[ListedPrompt]:
    """Raises SetupError for a file that cannot be read, and for the first line that is no prompt."""
    decoder = msgspec.json.Decoder(_Line)
    return [_listed(decoder, line, place) for place, line in read_lines(path, max_bytes=MAX_FILE_BYTES)]


def check_writable(path: Path) -> None:
    """Raises SetupError unless `write_prompts` can put a file there."""
    beside = _beside(path)
    try:
        _create(beside)
        beside.unlink()
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error


def write_prompts(path: Path, prompts: Iterable[ListedPrompt]) -> None:
    """Replace the file at once, readable by its owner alone, with as many as can be read again.

    Prompts must be of token ids. Raises OSError.
    """
    encoder, num_left = msgspec.json.Encoder(), MAX_FILE_BYTES
    beside = _beside(path)
    with os.fdopen(_create(beside), "wb") as file:
        for prompt in prompts:
            line = encoder.encode(_line(prompt)) + b"\n"
            if len(line) > min(num_left, MAX_LINE_BYTES):
                continue
            file.write(line)
            num_left -= len(line)
    beside.replace(path)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{os.getpid()}")


def _create(path: Path) -> int:
    """A new file, whatever was there; its descriptor."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


def _listed(decoder: msgspec.json.Decoder[_Line], text: bytes, place: str) -> ListedPrompt:
    if len(text) > MAX_LINE_BYTES:
        raise SetupError(f"{place}: it has more than {MAX_LINE_BYTES >> 20} MiB")
    try:
        line = decoder.decode(text)
        salt = tenant_salt(line.cache_salt, line.user_id)
        return ListedPrompt(_prompt(line), salt, line.num_uses, line.model, place)
    except (msgspec.DecodeError, InvalidRequest, RecursionError) as error:
        raise SetupError(f"{place}: {error}") from error


def _prompt(line: _Line) -> Prompt:
    if sum(given is not None for given in (line.prompt, line.messages, line.token_ids)) != 1:
        raise InvalidRequest("give one of prompt, messages and token_ids")
    if line.messages is not None:
        return chat_prompt(line.messages, add_generation_prompt=False, continue_final_message=None, template_args=None)
    if isinstance(line.prompt, str):
        return TextPrompt(line.prompt)
    return TokenPrompt(line.prompt) if line.prompt is not None else TokenPrompt(line.token_ids or (), "token_ids")


def _line(prompt: ListedPrompt) -> _Line:
    assert isinstance(prompt.prompt, TokenPrompt), "only token ids are written"
    return _Line(
        token_ids=list(prompt.prompt.token_ids),
        cache_salt=prompt.cache_salt or None,
        num_uses=prompt.num_uses,
        model=prompt.model,
    )
