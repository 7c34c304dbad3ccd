"""Asking about the cache and emptying it: who may, what is understood, and what is answered."""

from typing import Any
from urllib.parse import quote

import pytest
from starlette.types import ASGIApp

from tailrace.errors import InvalidRequest
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.service.api import ChatPrompt, TextPrompt, TokenPrompt
from tailrace.telemetry.prometheus import Metrics
from tailrace.types import BlockTarget, Level, MissReason, ModelTarget, PrefixReport, TenantTarget
from tests.support.asgi import Answer, ask, post
from tests.support.scripted_service import ScriptedService

KEY = "0123456789abcdef"
ADMIN = {"authorization": f"Bearer {KEY}"}
NAME = "00112233445566778899aAbBcCdDeEfF"


@pytest.fixture
def config() -> HttpConfig:
    return HttpConfig(admin_key=KEY, max_query_bytes=200)


async def explain(app: ASGIApp, query: str) -> Answer:
    return await ask(app, f"/cache/explain?{query}", headers=ADMIN)


async def invalidate(app: ASGIApp, **fields: Any) -> Answer:
    return await post(app, "/cache/invalidate", fields, **ADMIN)


async def test_without_a_key_nobody_may_and_is_told_how_to_set_one(service: ScriptedService, metrics: Metrics) -> None:
    app = create_app(service, metrics, HttpConfig())
    for answer in (await explain(app, "prompt=Hi"), await invalidate(app, all=True)):
        assert answer.status == 403
        assert "TAILRACE_ADMIN_KEY" in answer.json()["error"]["message"]
    assert service.explained == []
    assert service.invalidated == []


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", KEY, f"Bearer {KEY}0"])
async def test_a_wrong_key_is_401(app: ASGIApp, service: ScriptedService, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given}
    answers = (
        await ask(app, "/cache/explain?prompt=Hi", headers=headers),
        await post(app, "/cache/explain", {"prompt": "Hi"}, **headers),
        await post(app, "/cache/invalidate", {"all": True}, **headers),
    )
    for answer in answers:
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert KEY not in answer.body.decode()
    assert service.explained == []
    assert service.invalidated == []


async def test_an_explanation_has_figures_and_words(app: ASGIApp) -> None:
    answer = await explain(app, "prompt=Hi")
    assert answer.status == 200
    assert answer.json() == {
        "prompt_tokens": 40,
        "cached_tokens": 32,
        "cached_tokens_details": {"engine": 16, "host": 16},
        "first_missing_position": 32,
        "cache_miss_reason": "evicted",
        "removed_s_ago": 2.5,
        "removed_by": "cmpl-7",
        "block_tokens": 16,
        "blocks": ["01" * 16, "02" * 16],
        "fingerprint": "ab" * 16,
        "in_words": "32 of 40 prompt tokens are cached (engine: 16, host: 16). What comes at position 32 was evicted, "
        "to make room for other requests, 2.5 s ago, by request cmpl-7.",
    }


@pytest.mark.parametrize("reason", MissReason)
async def test_every_reason_has_its_words(app: ASGIApp, service: ScriptedService, reason: MissReason) -> None:
    service.prefix = PrefixReport((), reason)
    answer = (await explain(app, "prompt=Hi")).json()
    assert answer["cache_miss_reason"] == reason
    assert answer["in_words"].startswith("0 of 40 prompt tokens are cached. What comes at position 0 ")


async def test_nothing_is_missing_of_a_prompt_that_is_cached(app: ASGIApp, service: ScriptedService) -> None:
    service.prefix = PrefixReport((), None)
    answer = (await explain(app, "prompt=Hi")).json()
    assert answer["first_missing_position"] is None
    assert "Nothing is missing" in answer["in_words"]


async def test_a_rest_of_which_rows_were_found_is_not_said_to_be_found_in_whole_blocks_alone(
    app: ASGIApp, service: ScriptedService
) -> None:
    service.prefix = PrefixReport(((Level.ENGINE, 24),), MissReason.SHORTER_THAN_BLOCK)
    assert (await explain(app, "prompt=Hi")).json()["in_words"] == (
        "24 of 40 prompt tokens are cached (engine: 24). What comes at position 24 belongs to what whole blocks leave "
        "of the prompt: without its last token, which is always computed, less than a block of 16 tokens. Of that, "
        "only rows are found that another kept block begins with, and none has this one."
    )


async def test_no_more_than_a_thousand_names_are_listed(app: ASGIApp, service: ScriptedService) -> None:
    service.names = (b"n" * 16,) * 2000
    assert len((await explain(app, "prompt=Hi")).json()["blocks"]) == 1024


async def test_a_query_says_what_a_body_says(app: ASGIApp, service: ScriptedService) -> None:
    await explain(app, f"prompt={quote('é & ü')}&cache_salt=a&user_id=b")
    await post(app, "/cache/explain", {"prompt": "é & ü", "cache_salt": "a", "user_id": "b"}, **ADMIN)
    assert service.explained == [(TextPrompt("é & ü"), "a|user_id=b")] * 2


async def test_messages_and_ids_can_be_explained(app: ASGIApp, service: ScriptedService) -> None:
    await post(app, "/cache/explain", {"messages": [{"role": "user", "content": "Hi"}]}, **ADMIN)
    await post(app, "/cache/explain", {"prompt": [1, 2, 3]}, **ADMIN)
    await post(app, "/cache/explain", {"token_ids": [1, 2, 3]}, **ADMIN)
    (chat, _), (ids, _), (same, _) = service.explained
    assert chat == ChatPrompt([{"role": "user", "content": "Hi"}])
    assert ids == same == TokenPrompt([1, 2, 3])


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ("", 400, "one of prompt, messages and token_ids"),
        ("prompt=a&prompt=b", 400, "twice"),
        ("prompt=%ff", 400, "UTF-8"),
        ("prompt=a&temperature=1", 400, "temperature"),
        ("prompt=a&model=other", 404, "other"),
        ("prompt=" + "a" * 200, 413, "POST"),
    ],
)
async def test_a_query_that_is_not_understood_is_refused(
    app: ASGIApp, service: ScriptedService, query: str, status: int, says: str
) -> None:
    answer = await explain(app, query)
    assert answer.status == status
    assert says in answer.json()["error"]["message"]
    assert service.explained == []


async def test_what_was_forgotten_is_counted_by_level(app: ASGIApp) -> None:
    answer = await invalidate(app, block=NAME)
    assert answer.status == 200
    assert answer.json() == {"dropped_blocks": {"engine": 3, "host": "pending"}, "version": 7, "took_ms": 1.5}


async def test_each_way_to_name_what_goes(app: ASGIApp, service: ScriptedService) -> None:
    await invalidate(app, block=NAME)
    await invalidate(app, tenant={"cache_salt": "a", "user_id": "b"})
    await invalidate(app, tenant={"anonymous": True})
    await invalidate(app, fingerprint=NAME)
    await invalidate(app, all=True)
    name = bytes.fromhex(NAME)
    assert service.invalidated == [
        BlockTarget(name),
        TenantTarget("a|user_id=b"),
        TenantTarget(""),
        ModelTarget(name),
        ModelTarget(),
    ]


async def test_a_prefix_is_text_messages_or_ids_of_one_tenant(app: ASGIApp, service: ScriptedService) -> None:
    await invalidate(app, prefix={"prompt": "Once upon", "cache_salt": "a"})
    await invalidate(app, prefix={"prompt": [1, 2], "user_id": "b"})
    await invalidate(app, prefix={"token_ids": [1, 2], "user_id": "b"})
    await invalidate(app, prefix={"messages": [{"role": "user", "content": "Hi"}]})
    assert service.invalidated_prompts == [
        (TextPrompt("Once upon"), "a"),
        *[(TokenPrompt([1, 2]), "|user_id=b")] * 2,
        (ChatPrompt([{"role": "user", "content": "Hi"}], add_generation_prompt=False), ""),
    ]


async def test_a_prefix_of_messages_ends_before_an_answer_begins_unless_that_is_asked_for(
    app: ASGIApp, service: ScriptedService
) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    for given in ({}, {"add_generation_prompt": False}, {"add_generation_prompt": True}):
        await invalidate(app, prefix={"messages": messages, **given})
    prompts = [prompt for prompt, _ in service.invalidated_prompts if isinstance(prompt, ChatPrompt)]
    assert [prompt.add_generation_prompt for prompt in prompts] == [False, False, True]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "exactly one"),
        ({"all": False}, "exactly one"),
        ({"block": NAME, "all": True}, "exactly one"),
        ({"block": "00"}, "block is no name: a name is 32 hexadecimal digits"),
        ({"block": NAME + "\n"}, "32 hexadecimal digits"),
        ({"fingerprint": "x" * 32}, "fingerprint is no name: a name is 32 hexadecimal digits"),
        ({"prefix": {}}, "one of prompt, messages and token_ids"),
        ({"prefix": {"prompt": "a", "token_ids": [1]}}, "one of prompt, messages and token_ids"),
        ({"prefix": {"token_ids": []}}, "prefix.token_ids"),
        ({"prefix": {"prompt": "a", "temperature": 1}}, "temperature"),
        ({"tenant": {"salt": "a"}}, "salt"),
        ({"tenant": {}}, '"anonymous": true'),
        ({"tenant": {"cache_salt": None, "user_id": None}}, '"anonymous": true'),
        ({"tenant": {"anonymous": False}}, '"anonymous": true'),
        ({"tenant": {"anonymous": True, "user_id": "b"}}, "name one tenant"),
        ({"tenant": {"cache_salt": ""}}, "tenant.cache_salt"),
        ({"everything": True}, "everything"),
    ],
)
async def test_what_names_nothing_or_too_much_is_refused(
    app: ASGIApp, service: ScriptedService, fields: dict[str, Any], says: str
) -> None:
    answer = await invalidate(app, **fields)
    assert answer.status == 400
    assert says in answer.json()["error"]["message"]
    assert service.invalidated == []
    assert service.invalidated_prompts == []


async def test_a_prompt_shorter_than_a_block_cannot_be_named(app: ASGIApp, service: ScriptedService) -> None:
    service.num_forgets = 0
    answer = await invalidate(app, prefix={"prompt": "a"})
    assert answer.status == 400
    assert "16 tokens" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("prefix", "param", "begins"),
    [
        ({"messages": [{"role": "judge", "content": "x"}]}, "prefix.messages[0].role", "prefix.messages[0].role is"),
        ({"messages": [{"role": 1}]}, "prefix.messages[0].role", "prefix.messages[0].role has"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "", "x": 1}]}]},
            "prefix.messages[0].content[0].x",
            "unknown field 'prefix.messages[0].content[0].x'",
        ),
        ({}, "prefix.prompt", "send one of"),
    ],
)
async def test_an_error_in_a_prefix_names_the_whole_path(
    app: ASGIApp, prefix: dict[str, Any], param: str, begins: str
) -> None:
    error = (await invalidate(app, prefix=prefix)).json()["error"]
    assert error["param"] == param
    assert error["message"].startswith(begins)


async def test_an_error_of_the_service_names_the_whole_path_too(app: ASGIApp, service: ScriptedService) -> None:
    service.refusal = InvalidRequest("token_ids: token id 7 is not in the vocabulary", param="token_ids")
    error = (await invalidate(app, prefix={"token_ids": [7]})).json()["error"]
    assert error["param"] == "prefix.token_ids"
    assert error["message"] == "prefix.token_ids: token id 7 is not in the vocabulary"
