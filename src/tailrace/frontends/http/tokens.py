"""The endpoints between text and token ids. Long texts take a while, so the work leaves the event loop."""

import asyncio

import msgspec

from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.decode import BodyDecoder
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.openai.fields import OPENAI_FIELDS
from tailrace.frontends.http.openai.prompts import one_prompt
from tailrace.frontends.http.openai.schema import DetokenizeBody, TokenizeBody
from tailrace.frontends.model_name import check_model
from tailrace.service.api import Prompt, Service

__all__ = ["TokenEndpoints"]

_TOKENIZE = BodyDecoder(TokenizeBody, OPENAI_FIELDS)
_DETOKENIZE = BodyDecoder(DetokenizeBody, OPENAI_FIELDS)


class TokenEndpoints:
    def __init__(self, service: Service, config: HttpConfig) -> None:
        self._service = service
        self._config = config

    async def tokenize(self, exchange: Exchange) -> None:
        """A prompt, or messages through the chat template, as ids; the strings of the ids if wanted."""
        fields = _TOKENIZE.decode(await exchange.read_json(self._config.max_body_bytes))
        check_model(fields.model, self._service.model)
        answer = await asyncio.to_thread(
            self._tokenized, one_prompt(fields.prompt, fields), has_strings=bool(fields.return_token_strs)
        )
        await exchange.respond_json(answer)

    def _tokenized(self, prompt: Prompt, *, has_strings: bool) -> bytes:
        ids = self._service.tokenize(prompt)
        answer = {
            "count": len(ids),
            "max_model_len": self._service.model.max_model_tokens,
            "tokens": ids,
            "token_strs": [self._service.token_text(token_id) for token_id in ids] if has_strings else None,
        }
        return msgspec.json.encode(answer)

    async def detokenize(self, exchange: Exchange) -> None:
        fields = _DETOKENIZE.decode(await exchange.read_json(self._config.max_body_bytes))
        check_model(fields.model, self._service.model)
        text = await asyncio.to_thread(self._service.detokenize, fields.tokens)
        await exchange.respond_json(msgspec.json.encode({"prompt": text}))
