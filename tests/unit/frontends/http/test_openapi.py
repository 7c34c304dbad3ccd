"""The document says what the routes and the decoders do: requests made from it get the answers that it names."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case
from starlette.types import ASGIApp

from tailrace.frontends.http import openapi
from tailrace.frontends.http.app import create_app
from tailrace.frontends.http.config import HttpConfig
from tailrace.frontends.http.openapi import openapi_document
from tailrace.frontends.http.resume.store import ResumeStore
from tailrace.frontends.http.resume.streams import ResumableStreams
from tailrace.service.api import Generation, Journal, Milestones, Output, SettledGeneration
from tailrace.telemetry.profile import Profiler, ProfileTurn
from tailrace.telemetry.prometheus import Metrics
from tests.support.asgi import Answer, ask, talk
from tests.support.scripted_service import MODEL, ScriptedService, ScriptedStream

ADMIN = "admin-0123456789abc"
NUM_REQUESTS = 25  # of each route
DOCUMENT: dict[str, Any] = json.loads(openapi_document("1.2.3"))
OPERATIONS = [(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods]
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


class Journaled(ScriptedService):
    """Has no stream that could be taken up."""

    async def start_journaled(self, generation: Generation, journal: Journal | None) -> ScriptedStream:
        return await self.start(generation)

    async def resume(
        self,
        settled: SettledGeneration,
        outputs: Sequence[Output],
        journal: Journal,
        milestones: Milestones | None = None,
    ) -> ScriptedStream:
        raise AssertionError("no stream was begun")


@pytest.fixture
def app(metrics: Metrics) -> ASGIApp:
    service, config = Journaled(), HttpConfig(version="1.2.3", admin_key=ADMIN)
    store = ResumeStore(memoryview(bytearray(1 << 20)), owner=0, num_owners=1)
    streams = ResumableStreams(service, store, metrics.http, config)
    return create_app(service, metrics, config, streams=streams, profiler=Profiler(dict, ProfileTurn()))


async def test_it_is_served(app: ASGIApp) -> None:
    answer = await ask(app, "/openapi.json")
    assert answer.json() == DOCUMENT
    assert DOCUMENT["info"]["version"] == "1.2.3"


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_every_route_of_it_is_there(app: ASGIApp, method: str, path: str) -> None:
    name = path.replace("{name}", MODEL.name)
    answer = await talk(app, name, method=method.upper(), headers={"authorization": f"Bearer {ADMIN}"}).end()
    assert answer.status in (200, 400) or answer.json()["error"]["code"] == "stream_not_found"


async def test_every_route_is_in_it(app: ASGIApp) -> None:
    """Under the prefix that its clients use."""
    described = {path.removeprefix("/v1") for path in DOCUMENT["paths"]}
    router = app._router  # type: ignore[attr-defined]  # nobody else has the list
    names = {route.name.replace("{name:path}", "{name}") for route in router.routes}
    assert names == described


@pytest.mark.parametrize("operation", [each for each in openapi._OPERATIONS if each.body], ids=lambda each: each.path)
def test_every_field_is_in_it_with_what_becomes_of_it(operation: openapi._Operation) -> None:
    assert operation.body is not None
    schema = DOCUMENT["components"]["schemas"][operation.body.__name__]
    obeyed = {field.encode_name for field in msgspec.structs.fields(operation.body)}
    unused = {*operation.rules.accepted, *operation.rules.refused}
    assert schema["properties"].keys() == obeyed | unused
    assert schema["additionalProperties"] is False


def answered(method: str, path: str, body: bytes) -> Answer:
    """What a fresh application says."""

    async def ask_it() -> Answer:
        config = HttpConfig(version="1.2.3", admin_key=ADMIN, max_merged_choices=8)
        app = create_app(ScriptedService(), Metrics(model_name=MODEL.name, version="1.2.3"), config)
        headers = {"authorization": f"Bearer {ADMIN}", "content-type": "application/json"}
        return await talk(app, path, body, method=method, headers=headers).end()

    return asyncio.run(ask_it())


@pytest.mark.parametrize(("method", "path"), [each for each in OPERATIONS if "{" not in each[1]])
def test_what_it_allows_is_answered_as_it_says(method: str, path: str) -> None:
    cases = SCHEMA[path][method.upper()].as_strategy()

    @seed(7)
    @settings(
        max_examples=NUM_REQUESTS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def check(case: Case[Any]) -> None:
        body = b"" if case.body is schemathesis.core.NOT_SET else json.dumps(case.body).encode()
        check_answer(method, path, answered(method.upper(), path, body))

    check()


def check_answer(method: str, path: str, answer: Answer) -> None:
    """Of a status and a kind that the document names; a refusal says what is wrong."""
    described = DOCUMENT["paths"][path][method]["responses"]
    assert str(answer.status) in described, answer.body
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in described[str(answer.status)]["content"]
    assert answer.is_complete
    if answer.status != 200:
        assert answer.json()["error"]["message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


WITH_BODY = [path for method, path in OPERATIONS if "requestBody" in DOCUMENT["paths"][path][method]]


@pytest.mark.parametrize("path", WITH_BODY)
def test_what_it_does_not_allow_is_refused_or_served_and_never_our_fault(path: str) -> None:
    properties = list(DOCUMENT["components"]["schemas"][_body_name(path)]["properties"])

    @seed(7)
    @settings(max_examples=NUM_REQUESTS, deadline=None, database=None, phases=[Phase.generate])
    @given(st.dictionaries(st.sampled_from(properties), JSON, max_size=4) | JSON, st.binary(max_size=8))
    def check(fields: object, noise: bytes) -> None:
        whole = json.dumps(fields).encode()
        for body in (whole, whole[: len(noise)] + noise):
            check_answer("post", path, answered("POST", path, body))

    check()


def _body_name(path: str) -> str:
    schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return str(schema["$ref"]).rpartition("/")[2]
