"""The endpoints of operators for the cache: why a prompt is cached or not, and to forget."""

import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

import msgspec

from tailrace.errors import InvalidRequest, RequestError
from tailrace.frontends.admin_key import AdminKey
from tailrace.frontends.http.cache_words import explained
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.decode import BodyDecoder
from tailrace.frontends.http.exchange import Exchange
from tailrace.frontends.http.openai.fields import OPENAI_FIELDS
from tailrace.frontends.http.openai.prompts import one_prompt
from tailrace.frontends.http.openai.schema import CachedPrompt, CacheTenant, ExplainBody, InvalidateBody
from tailrace.frontends.model_name import check_model
from tailrace.frontends.salt import tenant_salt
from tailrace.service.api import Prompt, Service, TokenPrompt
from tailrace.types import BlockTarget, Explanation, Invalidated, ModelTarget, TenantTarget

__all__ = ["CacheEndpoints"]

_EXPLAIN = BodyDecoder(ExplainBody, OPENAI_FIELDS)
_INVALIDATE = BodyDecoder(InvalidateBody, OPENAI_FIELDS)
_NAME = re.compile("[0-9a-fA-F]{32}")
_MAX_NAMES = 1024  # of blocks in one explanation


class CacheEndpoints:
    """All of them need the admin key: what one tenant has sent is nobody else's business."""

    def __init__(self, service: Service, key: AdminKey, config: HttpConfig) -> None:
        self._service = service
        self._key = key
        self._config = config

    async def explain_query(self, exchange: Exchange) -> None:
        """For a prompt that fits a URL."""
        self._key.check(exchange)
        await self._explain(exchange, msgspec.json.encode(exchange.read_query(self._config.max_query_bytes)))

    async def explain_body(self, exchange: Exchange) -> None:
        self._key.check(exchange)
        await self._explain(exchange, await exchange.read_json(self._config.max_body_bytes))

    async def _explain(self, exchange: Exchange, body: bytes) -> None:
        fields = _EXPLAIN.decode(body)
        check_model(fields.model, self._service.model)
        prompt, salt = _prompt_and_salt(fields)
        explanation = await exchange.unless_gone(self._service.explain(prompt, salt))
        await exchange.respond_json(_encode_explanation(explanation))

    async def invalidate(self, exchange: Exchange) -> None:
        """Forget one thing. Goes on when the client leaves."""
        self._key.check(exchange)
        fields = _INVALIDATE.decode(await exchange.read_json(self._config.max_body_bytes))
        done = await self._forget(fields)
        if done.num_forgets == 0:
            raise InvalidRequest(
                f"the prompt is shorter than a block of {done.block_tokens} tokens: no name stands for it alone; "
                "give more of it, or name its tenant",
                param="prefix",
            )
        await exchange.respond_json(_encode_invalidated(done))

    def _forget(self, fields: InvalidateBody) -> Awaitable[Invalidated]:
        given = [name for name in fields.__struct_fields__ if getattr(fields, name) not in (None, False)]
        if len(given) != 1:
            raise InvalidRequest(f"name exactly one of {', '.join(fields.__struct_fields__)}; {len(given)} are there")
        if fields.block is not None:
            return self._service.invalidate(BlockTarget(_name(fields.block, "block")))
        if fields.prefix is not None:
            return self._forget_prefix(fields.prefix)
        if fields.tenant is not None:
            return self._service.invalidate(_tenant(fields.tenant))
        fingerprint = None if fields.fingerprint is None else _name(fields.fingerprint, "fingerprint")
        return self._service.invalidate(ModelTarget(fingerprint))

    async def _forget_prefix(self, fields: CachedPrompt) -> Invalidated:
        """Messages may be continued by others, so that the start of an answer is no part of them unless asked for."""
        if fields.add_generation_prompt is None:
            fields.add_generation_prompt = False
        with _inside("prefix"):
            return await self._service.invalidate_prompt(*_prompt_and_salt(fields))


@contextmanager
def _inside(field: str) -> Iterator[None]:
    """Errors name their place in the whole body: what is checked in here knows only its own part."""
    try:
        yield
    except RequestError as error:
        if error.param is not None:
            place = re.escape(error.param)
            error.args = (re.sub(f"^(?={place})|(?<=')(?={place}')", f"{field}.", str(error)),)
            error.param = f"{field}.{error.param}"
        raise


def _prompt_and_salt(fields: CachedPrompt) -> tuple[Prompt, str]:
    salt = tenant_salt(fields.cache_salt, fields.user_id)
    if sum(given is not None for given in (fields.prompt, fields.messages, fields.token_ids)) != 1:
        raise InvalidRequest("send one of prompt, messages and token_ids", param="prompt")
    if fields.token_ids is not None:
        return TokenPrompt(fields.token_ids, "token_ids"), salt
    return one_prompt(fields.prompt, fields), salt


def _tenant(fields: CacheTenant) -> TenantTarget:
    salt = tenant_salt(fields.cache_salt, fields.user_id)
    if bool(fields.anonymous) == bool(salt):
        raise InvalidRequest(
            'name one tenant by its cache_salt and user_id; those who send neither are {"anonymous": true}',
            param="tenant",
        )
    return TenantTarget(salt)


def _name(digits: str, field: str) -> bytes:
    if not _NAME.fullmatch(digits):
        raise InvalidRequest(f"{field} is no name: a name is 32 hexadecimal digits", param=field)
    return bytes.fromhex(digits)


def _encode_explanation(explanation: Explanation) -> bytes:
    prefix = explanation.prefix
    num_cached = prefix.num_cached_tokens
    return msgspec.json.encode(
        {
            "prompt_tokens": explanation.num_prompt_tokens,
            "cached_tokens": num_cached,
            "cached_tokens_details": dict(prefix.num_tokens),
            "first_missing_position": None if prefix.reason is None else num_cached,
            "cache_miss_reason": prefix.reason,
            "removed_s_ago": prefix.removed_s_ago,
            "removed_by": prefix.removed_by,
            "block_tokens": explanation.block_tokens,
            "blocks": [name.hex() for name in explanation.names[:_MAX_NAMES]],
            "fingerprint": explanation.fingerprint.hex(),
            "in_words": explained(explanation),
        }
    )


def _encode_invalidated(done: Invalidated) -> bytes:
    return msgspec.json.encode(
        {
            "dropped_blocks": {level: "pending" if count is None else count for level, count in done.num_dropped},
            "version": done.version,
            "took_ms": round(done.took_s * 1e3, 3),
        }
    )
