"""Frames of what processes say."""

from typing import Any

import msgspec
import pytest

from tailrace.classes import STANDARD
from tailrace.records import (
    EventKind,
    EventRecord,
    LevelReport,
    LoadRecord,
    PoolRecord,
    RequestRecord,
    RuleReport,
    StepRecord,
)
from tailrace.telemetry.feed.builder import FrameBuilder, ServerFacts
from tailrace.telemetry.feed.process import decode_view
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.prometheus import Metrics
from tailrace.telemetry.readings import Reading
from tailrace.types import Beginning, FinishReason, Level, PrefixReport
from tests.support.beginnings import beginning_of

FACTS = ServerFacts("m", "1", budget_tokens=512, num_api_processes=1, started_s=100.0)


def _step(step_id: int, *, num_prefill: int = 0, predicted_s: float | None = None) -> StepRecord:
    at_s = 100.0 + step_id
    return StepRecord(
        step_id,
        at_s,
        at_s + 0.1,
        at_s + 0.5,
        at_s + 0.6,
        num_tokens=num_prefill + 3,
        num_sampled=3,
        num_prefill_tokens=num_prefill,
        num_context_tokens=0,
        num_read_tokens=0,
        num_running=3,
        num_waiting=1,
        num_preempted=0,
        num_blocks_used=30,
        num_blocks_cached=10,
        num_blocks_total=80,
        pool=PoolRecord(num_free=40, num_idle=10, num_sealed=30, chunk_fragmentation=0.25),
        predicted_s=predicted_s,
        running_by_class=(1, 2, 0),
        waiting_by_class=(0, 0, 1),
        prompts=(("r1-0", num_prefill),) if num_prefill else (),
    )


def _ended(request_id: str, ttft_s: float) -> RequestRecord:
    prefix = PrefixReport(((Level.ENGINE, 60), (Level.HOST, 20)), None)
    return RequestRecord(
        request_id, 0.0, 0.0, ttft_s, 400.0, 100, prefix, 5, 0, FinishReason.STOP, class_name="gold", ttft_target_s=1.0
    )


class Server:
    """An engine and one API process."""

    def __init__(self) -> None:
        self.engine, self.api = (Metrics(model_name="m", version="1", process=name) for name in ("engine", "api 0"))
        self.builder = FrameBuilder(FACTS, lambda: STANDARD)

    def frame(self, now_s: float) -> Any:
        whole = self.api.with_others([self.engine.snapshot()])
        views = [self.api.feed.view(), decode_view(self.engine.feed.snapshot())]
        reading = Reading(now_s, whole.samples())
        frame = self.builder.build(reading, whole.events.latest(), views, is_ready=True)
        return msgspec.json.decode(msgspec.json.encode(frame))


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_server_that_has_done_nothing(server: Server) -> None:
    frame = server.frame(101.5)
    assert frame["uptime_s"] == 1.5
    assert frame["rates"] == {
        "output_tokens_per_s": 0.0,
        "prompt_tokens_per_s": 0.0,
        "requests_per_s": 0.0,
        "refused_per_s": 0.0,
        "steps_per_s": 0.0,
    }
    assert frame["steps"] == frame["requests"] == frame["events"] == []
    assert frame["heat"] == {"cell_s": 300, "rows": [{"level": "engine", "cells": []}]}


def test_rates_classes_and_levels_are_those_of_the_time_between_frames(server: Server) -> None:
    server.frame(400.0)
    for step_id in range(1, 5):
        server.engine.record(_step(step_id, num_prefill=100))
    for ended in (_ended("a", 0.5), _ended("b", 3.0)):
        server.engine.record(beginning_of(ended))
        server.engine.record(ended)
    server.engine.levels.watch(lambda: [LevelReport(Level.HOST, True, 7, 500, 1000, 0, 0, 0, 0.0, 0, 0, 0, 0)])
    frame = server.frame(402.0)
    assert frame["rates"] == {
        "output_tokens_per_s": 6.0,
        "prompt_tokens_per_s": 200.0,
        "requests_per_s": 1.0,
        "refused_per_s": 0.0,
        "steps_per_s": 2.0,
    }
    classes = {each["name"]: each for each in frame["classes"]}
    assert [classes["gold"][name] for name in ("running", "waiting", "on_target")] == [1, 0, 0.5]
    assert 0.25 < classes["gold"]["ttft_p50_s"] <= 0.5
    assert 2.5 < classes["gold"]["ttft_p99_s"] <= 5.0
    assert classes["bronze"]["ttft_p50_s"] is None
    engine, host = frame["levels"]
    assert (engine["used"], engine["hit_rate"]) == (0.5, 0.6)
    assert (host["used"], host["hit_rate"], host["is_up"], host["num_blocks"]) == (0.5, 0.2, True, 7)
    rows = {row["level"]: row["cells"] for row in frame["heat"]["rows"]}
    assert rows == {"engine": [[102.0, 0.6]], "host": [[102.0, 0.2]]}
    assert frame["blocks"]["fragmentation"] == 0.25


def test_a_level_is_shown_as_rules_have_it(server: Server) -> None:
    server.engine.levels.watch(
        lambda: [LevelReport(level, True, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0) for level in (Level.HOST, Level.REDIS)]
    )
    server.engine.rules.watch(
        lambda: [RuleReport("cold", "says", "bypass", "redis", "firing", 0.0, 0.1, True, 0.66, 180.0)]
    )
    modes = {level["name"]: level["mode"] for level in server.frame(103.0)["levels"]}
    assert modes == {"engine": "normal", "host": "normal", "redis": "bypassed"}


def test_each_step_is_shown_once_and_those_of_a_new_engine_from_its_first_on(server: Server) -> None:
    for step_id in (1, 2):
        server.engine.record(_step(step_id, num_prefill=step_id, predicted_s=0.25))
    (_, second) = server.frame(103.0)["steps"]
    assert second == {
        "id": 2,
        "ago_s": 0.5,
        "took_s": pytest.approx(0.4),
        "predicted_s": 0.25,
        "num_decodes": 3,
        "num_prompt_tokens": 2,
        "prompts": [["r1-0", 2]],
    }
    server.engine.record(_step(3))
    assert [step["id"] for step in server.frame(104.0)["steps"]] == [3]
    assert server.frame(105.0)["steps"] == []
    server.engine = Metrics(model_name="m", version="1", process="engine")
    server.engine.record(_step(1))
    assert [step["id"] for step in server.frame(106.0)["steps"]] == [1]


def test_requests_come_newest_first_with_what_they_are_at(server: Server) -> None:
    beginning = Beginning(taken_s=101.0, started_s=101.0, computed_s=102.0)
    waiting, decoding, ended = (
        RequestLife(request_id=f"r{place}", endpoint="chat", class_name="gold", accepted_s=103.0 - place)
        for place in range(3)
    )
    decoding.beginning, decoding.received_s = beginning, 102.5
    ended.text_s, ended.ended_s, ended.finish_reason, ended.found = 101.5, 104.0, "stop", {"engine": 16}
    for life in (ended, decoding, waiting):
        server.api.lives.begin(life)
    server.api.lives.end(ended)
    lines = server.frame(110.0)["requests"]
    assert [(line["id"], line["state"]) for line in lines] == [
        ("r0", "waiting"),
        ("r1", "decoding"),
        ("r2", "ended"),
    ]
    last = lines[2]
    assert (last["ttft_s"], last["took_s"], last["num_cached_tokens"]) == (0.5, 3.0, 16)
    server.engine.record(_step(5, num_prefill=8))
    assert server.frame(111.0)["requests"][1]["state"] == "decoding"


def test_events_of_all_processes(server: Server) -> None:
    server.engine.record(EventRecord(5.0, EventKind.LEVEL_DOWN, "disk is down"))
    server.api.record(EventRecord(6.0, EventKind.ENGINE_LOST, "the engine died"))
    assert server.frame(101.0)["events"] == [
        {"at_s": 6.0, "kind": "engine_lost", "message": "the engine died"},
        {"at_s": 5.0, "kind": "level_down", "message": "disk is down"},
    ]


def test_shares_of_the_engines_time_add_up(server: Server) -> None:
    assert server.frame(101.0)["time"] == {}
    server.engine.engine_time.watch(lambda: {"idle": 3.0, "compute": 1.0})
    time = server.frame(105.0)["time"]
    assert (time["idle"], time["compute"], sum(time.values())) == (0.75, 0.25, 1.0)


def test_load_without_steps_is_seen(server: Server) -> None:
    server.engine.record(LoadRecord(0, 2, 4, 4, 16, PoolRecord(), (0, 0, 0), (0, 2, 0)))
    silver = server.frame(101.0)["classes"][1]
    assert (silver["name"], silver["waiting"]) == ("silver", 2)
