"""The in-process driver over a pipeline that gives each live request one token a step."""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.peers.openvino_engine import load_run

RUNNING, FINISHED = "running", "finished"


@dataclass
class Handle:
    wanted_tokens: int
    given: int = 0
    unread: int = 0

    def can_read(self) -> bool:
        return self.unread > 0

    def read(self) -> dict[int, Any]:
        self.unread -= 1
        return {0: SimpleNamespace(generated_ids=[1])}

    def get_status(self) -> str:
        return FINISHED if self.given == self.wanted_tokens else RUNNING


@dataclass
class Pipeline:
    """Notes how many requests were live in each step."""

    model: str
    scheduler_config: Any
    device: str
    properties: dict[str, Any]
    live: list[Handle] = field(default_factory=list)
    live_in_steps: list[int] = field(default_factory=list)

    def get_tokenizer(self) -> Any:
        return SimpleNamespace(encode=lambda text: SimpleNamespace(input_ids=np.zeros((1, len(text.split())))))

    def add_request(self, _id: int, _ids: object, generation: Any) -> Handle:
        self.live.append(Handle(generation.max_new_tokens))
        return self.live[-1]

    def step(self) -> None:
        self.live_in_steps.append(len(self.live))
        for handle in self.live:
            handle.given += 1
            handle.unread += 1
        self.live = [handle for handle in self.live if handle.get_status() == RUNNING]


@pytest.fixture
def pipelines() -> list[Pipeline]:
    return []


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, pipelines: list[Pipeline]) -> Iterator[Any]:
    def make(*arguments: Any, **options: Any) -> Pipeline:
        pipelines.append(Pipeline(*arguments, **options))
        return pipelines[-1]

    genai = ModuleType("openvino_genai")
    parts = {"ContinuousBatchingPipeline": make, "SchedulerConfig": SimpleNamespace}
    status = SimpleNamespace(RUNNING=RUNNING)
    for name, part in {**parts, "GenerationConfig": SimpleNamespace, "GenerationStatus": status}.items():
        monkeypatch.setattr(genai, name, part, raising=False)
    monkeypatch.setitem(sys.modules, "openvino_genai", genai)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.openvino_driver", raising=False)
    yield importlib.import_module("benchmarks.peers.openvino_driver")
    sys.modules.pop("benchmarks.peers.openvino_driver", None)


JOB = {
    "scheduler": {"cache_size": 2},
    "properties": {"INFERENCE_NUM_THREADS": 2},
    "concurrency": 2,
    "output_tokens": 3,
    "warmup": ["warm"],
    "prompts": ["one", "one two", "one two three"],
}


def test_a_job_becomes_answers_in_the_order_of_its_prompts(driver: Any, tmp_path: Path) -> None:
    job, result = tmp_path / "job.json", tmp_path / "result.json"
    job.write_text(json.dumps(JOB))
    driver.main("model", str(job), str(result))
    answers = [sample.streamed for sample in load_run(result.read_bytes()).samples]
    assert [answer.prompt_tokens for answer in answers] == [1, 2, 3]
    assert [answer.output_tokens for answer in answers] == [3, 3, 3]
    for answer in answers:
        assert answer.sent_s < answer.chunk_s[0] < answer.chunk_s[1] < answer.chunk_s[2] == answer.ended_s


def test_a_request_that_ends_makes_room_for_the_next(driver: Any, pipelines: list[Pipeline]) -> None:
    driver.Driver("model", JOB).run(JOB["prompts"])
    assert pipelines[0].live_in_steps == [2, 2, 2, 1, 1, 1]


def test_settings_reach_the_pipeline(driver: Any, pipelines: list[Pipeline]) -> None:
    driver.Driver("model", JOB)
    assert pipelines[0].scheduler_config == SimpleNamespace(cache_size=2)
    assert (pipelines[0].model, pipelines[0].device) == ("model", "CPU")
    assert pipelines[0].properties == {"INFERENCE_NUM_THREADS": 2}


def test_a_result_without_times_is_not_read_as_one() -> None:
    with pytest.raises(msgspec.ValidationError):
        load_run(b'{"answers": []}')
