"""Answers that follow a grammar, on a model with trained weights: whole, alone or beside others, after a death too."""

import json
import re

import pytest

from tailrace.service.tokenizer import Tokenizer
from tailrace.types import FinishReason, Guide, Request, SamplingParams
from tailrace.weights.checkpoint import Checkpoint
from tailrace.weights.load import open_checkpoint
from tests.engine.harness import Harness, make_harness

NUMBER = Guide("start: /[0-9]{3}-[a-z]{2,4}/")
LIST = Guide('%llguidance {}\nstart: %json {"type": "array", "items": {"type": "integer"}, "minItems": 2}')
TEXT = "Q: What is the capital of France?\nA:"


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint("default")


@pytest.fixture(scope="module")
def tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    return Tokenizer.from_source(checkpoint.tokenizer)


@pytest.fixture(scope="module")
def harness(checkpoint: Checkpoint) -> Harness:
    return make_harness(checkpoint)


def request(name: str, tokenizer: Tokenizer, guide: Guide | None, **fields: object) -> Request:
    prompt = tokenizer.encode(TEXT, allow_control=False)
    sampling = SamplingParams(fields.pop("max_tokens", 24), float(name.split("/")[1]), seed=5)  # type: ignore[arg-type]
    return Request(name, tuple(prompt), sampling, guide=guide, cache_salt=name, **fields)  # type: ignore[arg-type]


def end_of(harness: Harness, name: str) -> FinishReason | None:
    return [event for event in harness.events if event.request_id == name][-1].finish_reason


def test_answers_follow_their_grammars_and_nobody_elses_change(harness: Harness, tokenizer: Tokenizer) -> None:
    guides = {"free": None, "number": NUMBER, "list": LIST}
    work = [request(f"{name}/{t}", tokenizer, guide) for name, guide in guides.items() for t in (0.0, 1.2)]
    alone: dict[str, list[int]] = {}
    for each in work:
        alone |= harness.run([each])
    ends = {each.request_id: end_of(harness, each.request_id) for each in work}

    assert harness.run(work) == alone
    for name, token_ids in alone.items():
        text = tokenizer.decode(token_ids)
        if name.startswith("number"):
            assert re.fullmatch("[0-9]{3}-[a-z]{2,4}", text), text
            assert ends[name] is FinishReason.STOP
        elif name.startswith("list"):
            assert all(isinstance(each, int) for each in json.loads(text))
            assert len(json.loads(text)) >= 2


def test_an_answer_goes_on_in_its_grammar_after_a_death(harness: Harness, tokenizer: Tokenizer) -> None:
    whole = harness.run([request("whole/0.9", tokenizer, NUMBER)])["whole/0.9"]
    for num_kept in range(1, len(whole) - 1):
        name = f"{num_kept}/0.9"
        resumed = request(name, tokenizer, NUMBER, output_ids=tuple(whole[:num_kept]), is_resumed=True)
        assert harness.run([resumed])[name] == whole[num_kept:]


def test_an_answer_that_is_cut_is_whole(harness: Harness, tokenizer: Tokenizer) -> None:
    for max_tokens in (8, 12):
        name = f"cut {max_tokens}/1.5"
        answer = harness.run([request(name, tokenizer, LIST, max_tokens=max_tokens)])[name]

        assert len(answer) <= max_tokens
        assert len(json.loads(tokenizer.decode(answer))) >= 2


def test_a_grammar_that_is_none_ends_its_request_with_an_error(harness: Harness, tokenizer: Tokenizer) -> None:
    harness.run([request("odd/0", tokenizer, Guide("start: nothing_that_is_defined"))])

    assert end_of(harness, "odd/0") is FinishReason.ERROR
