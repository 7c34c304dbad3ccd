"""Runs one load on OpenVINO GenAI in process and notes when each token came: `openvino_driver.py MODEL JOB RESULT`.

It runs in OpenVINO's own venv, so it imports nothing of ours, and it leaves all statistics to the one who reads RESULT.
"""

import importlib
import json
import sys
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

genai = importlib.import_module("openvino_genai")  # not in the venv that checks types


@dataclass(slots=True)
class Answer:
    """What one request brought and when, in monotonic seconds. A chunk is what one step gave."""

    sent_s: float
    prompt_tokens: int
    chunk_s: list[float] = field(default_factory=list)
    output_tokens: int = 0
    ended_s: float = 0.0


class Driver:
    """A closed loop around `step`: as soon as a request ends, the next one is added."""

    def __init__(self, model: str, job: dict[str, Any]) -> None:
        self._pipeline = genai.ContinuousBatchingPipeline(
            model, scheduler_config=_scheduler(job["scheduler"]), device="CPU", properties=job["properties"]
        )
        self._tokenizer = self._pipeline.get_tokenizer()
        self._generation = _generation(job["output_tokens"])
        self._concurrency: int = job["concurrency"]
        self._num_added = 0

    def run(self, prompts: Iterable[str]) -> list[Answer]:
        """One answer a prompt, in their order."""
        waiting, live, answers = deque(prompts), list[tuple[Any, Answer]](), list[Answer]()
        while waiting or live:
            while waiting and len(live) < self._concurrency:
                live.append(self._add(waiting.popleft()))
                answers.append(live[-1][1])
            self._pipeline.step()
            now_s = time.perf_counter()
            live = [(handle, answer) for handle, answer in live if _is_running(handle, answer, now_s)]
        return answers

    def _add(self, prompt: str) -> tuple[Any, Answer]:
        sent_s = time.perf_counter()
        ids = self._tokenizer.encode(prompt).input_ids
        self._num_added += 1
        handle = self._pipeline.add_request(self._num_added, ids, self._generation)
        return handle, Answer(sent_s, int(ids.shape[1]))


def _is_running(handle: Any, answer: Answer, now_s: float) -> bool:
    """Take what has come; whether there is more to come."""
    num_tokens = 0
    while handle.can_read():
        num_tokens += sum(len(output.generated_ids) for output in handle.read().values())
    if num_tokens:
        answer.chunk_s.append(now_s)
        answer.output_tokens += num_tokens
    answer.ended_s = now_s
    return bool(handle.get_status() == genai.GenerationStatus.RUNNING)


def _scheduler(settings: dict[str, Any]) -> Any:
    return _with(genai.SchedulerConfig(), settings)


def _generation(output_tokens: int) -> Any:
    settings = {"max_new_tokens": output_tokens, "ignore_eos": True, "do_sample": False, "apply_chat_template": False}
    return _with(genai.GenerationConfig(), settings)


def _with(config: Any, settings: dict[str, Any]) -> Any:
    for name, value in settings.items():
        setattr(config, name, value)
    return config


def main(model: str, job_file: str, result_file: str) -> None:
    job = json.loads(Path(job_file).read_text())
    driver = Driver(model, job)
    driver.run(job["warmup"])
    started_s = time.perf_counter()
    answers = driver.run(job["prompts"])
    ended_s = time.perf_counter()
    result = {"started_s": started_s, "ended_s": ended_s, "answers": [asdict(answer) for answer in answers]}
    Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
