"""Who has a key is served in its class; who has none is told so, and nothing of theirs is read."""

import pytest
from starlette.types import ASGIApp

from tailrace.frontends.api_keys import ApiKeys
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.standing import ANYBODY, Client
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import ask, post, talk
from tests.support.scripted_service import ScriptedService

SHOP, NIGHTLY, ADMIN = "sk-shop-0123456789", "sk-nightly-0123456", "admin-0123456789abc"
CLIENTS = {SHOP: Client("shop", "gold", "gold"), NIGHTLY: Client("nightly", "bronze", "silver")}
PROMPT = {"prompt": "Hi"}


@pytest.fixture
def config() -> HttpConfig:
    return HttpConfig(api_keys=ApiKeys(CLIENTS), admin_key=ADMIN)


@pytest.fixture
def app(service: ScriptedService, metrics: Metrics, config: HttpConfig) -> ASGIApp:
    return create_app(service, metrics, config)


def test_a_key_is_known_by_its_digest_alone() -> None:
    keys = ApiKeys(CLIENTS)
    assert keys.client_of(SHOP.encode()) is CLIENTS[SHOP]
    assert "sk-" not in repr(keys) + repr(vars(keys)) + repr(HttpConfig(api_keys=keys))


def test_keys_may_be_replaced_while_requests_come() -> None:
    keys = ApiKeys(CLIENTS)
    keys.replace({NIGHTLY: CLIENTS[NIGHTLY]})
    assert keys.client_of(SHOP.encode()) is None
    assert keys.client_of(NIGHTLY.encode()) is CLIENTS[NIGHTLY]


def test_without_keys_everybody_may_come() -> None:
    assert ApiKeys({}).client_of(None) is ApiKeys({}).client_of(b"none") is ANYBODY


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/tokenize", "/beta/detokenize"])
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", f"Basic {SHOP}", SHOP, f"Bearer {SHOP[:-1]}", f"Bearer {SHOP}x", "Bearer é"],
)
async def test_without_a_known_key_nothing_is_read_or_done(
    app: ASGIApp, service: ScriptedService, path: str, authorization: str | None
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = await talk(app, path, b"not even JSON", headers=headers, is_body_whole=False).end()
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "invalid_api_key")
    assert SHOP[:-1] not in error["message"]
    assert service.generations == []


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/tiny"])
async def test_models_are_listed_to_clients_alone(app: ASGIApp, path: str) -> None:
    assert (await ask(app, path)).status == 401
    assert (await ask(app, path, headers={"authorization": f"bearer {SHOP}"})).status == 200


@pytest.mark.parametrize("path", ["/health", "/v1/readyz", "/metrics", "/version", "/debug/experts"])
async def test_what_machines_ask_needs_no_key(app: ASGIApp, path: str) -> None:
    assert (await ask(app, path)).status == 200


async def test_the_admin_key_and_the_keys_of_clients_open_different_doors(app: ASGIApp) -> None:
    explain = "/cache/explain?prompt=Hi"
    assert (await ask(app, explain, headers={"authorization": f"Bearer {SHOP}"})).status == 401
    assert (await ask(app, explain, headers={"authorization": f"Bearer {ADMIN}"})).status == 200
    assert (await ask(app, "/v1/models", headers={"authorization": f"Bearer {ADMIN}"})).status == 401


@pytest.mark.parametrize(
    ("key", "fields", "served"),
    [
        (SHOP, {}, "gold"),
        (SHOP, {"service_tier": "flex"}, "bronze"),
        (NIGHTLY, {}, "bronze"),
        (NIGHTLY, {"service_tier": "default"}, "silver"),
        (NIGHTLY, {"service_tier": "priority"}, "silver"),
        (NIGHTLY, {"priority": -9}, "silver"),
    ],
)
async def test_a_request_is_served_in_its_class_and_in_no_better_one_than_its_key_allows(
    app: ASGIApp, service: ScriptedService, key: str, fields: dict[str, object], served: str
) -> None:
    answer = await post(app, "/v1/completions", PROMPT | fields, authorization=f"Bearer {key}")
    assert answer.status == 200
    assert answer.headers["x-service-class"] == served
    assert service.generation.standing.class_name == served


async def test_who_shares_a_class_is_the_key_and_whom_it_names(app: ASGIApp, service: ScriptedService) -> None:
    bearer = f"Bearer {SHOP}"
    await post(app, "/v1/completions", PROMPT, authorization=bearer)
    await post(app, "/v1/completions", PROMPT | {"user_id": "u7"}, authorization=bearer)
    await post(
        app,
        "/v1/completions",
        PROMPT | {"user_id": "u7"},
        authorization=bearer,
        x_llm_d_inference_fairness_id="team-1",
    )
    assert [each.standing.tenant for each in service.generations] == ["shop", "shop/u7", "shop/team-1"]
