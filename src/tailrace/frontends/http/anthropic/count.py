"""Counts the tokens of a message without answering it. Long texts take a while, so the work leaves the event loop."""

import asyncio

import msgspec

from tailrace.frontends.http.anthropic.fields import ANTHROPIC_FIELDS
from tailrace.frontends.http.anthropic.prompt import prompt_of
from tailrace.frontends.http.anthropic.schema import CountBody
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.decode import BodyDecoder
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.model_name import check_model
from tailrace.service.api import Service

__all__ = ["CountTokens"]

_BODY = BodyDecoder(CountBody, ANTHROPIC_FIELDS)


class CountTokens:
    def __init__(self, service: Service, config: HttpConfig) -> None:
        self._service = service
        self._config = config

    async def __call__(self, exchange: Exchange) -> None:
        fields = _BODY.decode(await exchange.read_json(self._config.max_body_bytes))
        check_model(fields.model, self._service.model)
        token_ids = await asyncio.to_thread(self._service.tokenize, prompt_of(fields))
        await exchange.respond_json(msgspec.json.encode({"input_tokens": len(token_ids)}))
