import pytest

from tailrace.config import EngineConfig
from tailrace.errors import SetupError
from tailrace.measure import shape as measuring
from tailrace.measure.report import ShapeReport
from tailrace.measure.shape import Shape, measure_shape
from tailrace.measure.streams import Workload

SMALL = Workload(num_prompts=3, prompt_tokens=20, output_tokens=8, num_rounds=2)
REFERENCE = EngineConfig(backend="reference")


def measured(
    shape: Shape, workload: Workload = SMALL, config: EngineConfig = REFERENCE
) -> tuple[ShapeReport, list[str]]:
    said: list[str] = []
    return measure_shape(shape, workload, config, progress=lambda _done, _total: None, say=said.append), said


@pytest.fixture(scope="module")
def outcome() -> tuple[ShapeReport, list[str]]:
    return measured(Shape("toy-v2-lite"))


def test_each_prompt_is_timed_by_itself(outcome: tuple[ShapeReport, list[str]]) -> None:
    report, _ = outcome
    assert (report.prompt_tokens, len(report.prefills_ms)) == (20, 3)
    assert all(prefill_ms > 0 for prefill_ms in report.prefills_ms)


def test_one_stream_and_all_are_timed_behind_their_prompts(outcome: tuple[ShapeReport, list[str]]) -> None:
    one, three, *again = outcome[0].decodes
    assert (one.num_streams, three.num_streams) == (1, 3)
    assert [decode.num_streams for decode in again] == [1, 3]
    for decode in (one, three):
        assert 20 < decode.context_tokens < 28
        assert 0 < decode.num_steps < 8
        assert decode.itl_p90_ms >= decode.itl_p50_ms > 0
    assert one.read_bytes < three.read_bytes < 3 * one.read_bytes


def test_the_reference_has_no_floor(outcome: tuple[ShapeReport, list[str]]) -> None:
    report, _ = outcome
    assert [(decode.read_bytes_per_s, decode.floor_ms) for decode in report.decodes] == 4 * [(None, None)]


def test_native_code_has_one_by_what_the_machine_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_RATE_BYTES", 1 << 20)
    report, _ = measured(Shape("toy-v2-lite"), config=EngineConfig(backend="cpu", num_threads=1))
    for decode in report.decodes:
        assert decode.read_bytes_per_s is not None
        assert decode.floor_ms == pytest.approx(1e3 * decode.read_bytes / decode.read_bytes_per_s)


def test_it_says_what_it_does(outcome: tuple[ShapeReport, list[str]]) -> None:
    _, said = outcome
    assert said == [
        *(f"prompt {number} of 3, 20 tokens" for number in (1, 2, 3)),
        *2 * ["streams of 8 tokens, 1 at a time", "streams of 8 tokens, 3 at a time"],
    ]


def test_a_single_stream_is_measured_once() -> None:
    report, _ = measured(Shape("toy-v2-lite"), Workload(1, prompt_tokens=20, output_tokens=8, num_rounds=1))
    assert [decode.num_streams for decode in report.decodes] == [1]


def test_a_prompt_and_its_answer_fit_the_model() -> None:
    with pytest.raises(SetupError, match="toy-v2-lite is made for 4,096 tokens, prompt and answer together"):
        measured(Shape("toy-v2-lite"), Workload(prompt_tokens=4090))


def test_what_the_memory_will_not_hold_is_refused_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "available_bytes", lambda: 8 << 30)
    with pytest.raises(SetupError, match=r"deepseek-v2-lite in int4 needs 10\.\d GB of memory and 8\.6 GB are free: "):
        measured(Shape("deepseek-v2-lite"))


def test_streams_too_short_to_say_anything_are_refused() -> None:
    with pytest.raises(SetupError, match="7 tokens a stream say nothing"):
        Workload(output_tokens=7)
