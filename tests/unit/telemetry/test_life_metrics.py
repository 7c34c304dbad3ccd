import pytest

from tailrace.telemetry.life_metrics import LifeMetrics
from tailrace.telemetry.lives import RequestLife
from tailrace.telemetry.series import LabelledNumber
from tailrace.types import Beginning, PromptChunk


def life(written_s: float | None) -> RequestLife:
    return RequestLife(
        request_id="a",
        endpoint="chat",
        class_name="gold",
        accepted_s=100.0,
        parsed_s=100.125,
        tokenised_s=100.25,
        submitted_s=100.5,
        beginning=Beginning(
            taken_s=101.0,
            started_s=104.0,
            computed_s=109.0,
            fetch_s=1.25,
            chunks=(PromptChunk(104.0, 105.0, 512), PromptChunk(107.0, 109.0, 100)),
        ),
        received_s=109.25,
        text_s=109.5,
        written_s=written_s,
    )


def values(metrics: LifeMetrics, name: str) -> dict[str, float]:
    (series,) = [each for each in metrics.series if each.metric.name == name]
    assert isinstance(series, LabelledNumber)
    return {labels[0]: value for labels, value in series.values.items()}


def test_the_way_of_a_first_token_is_cut_into_parts_that_add_up() -> None:
    metrics = LifeMetrics()
    metrics.first_token(life(written_s=110.0))
    parts = values(metrics, "tailrace_first_token_part_seconds")
    assert parts == {
        "accept": 0.125,
        "tokenise": 0.375,
        "to_engine": 0.5,
        "queue": 1.75,
        "fetch": 1.25,
        "prefill": 3.0,
        "between": 2.0,
        "from_engine": 0.25,
        "text": 0.25,
        "write": 0.5,
    }
    assert sum(parts.values()) == 10.0


def test_first_tokens_are_counted_with_the_time_of_all() -> None:
    metrics = LifeMetrics()
    for _ in range(3):
        metrics.first_token(life(written_s=110.0))
    metrics.first_token(life(written_s=109.5))
    (count,) = [each for each in metrics.series if each.metric.name == "tailrace_first_tokens"]
    assert count.value == 4  # type: ignore[union-attr]  # it has no labels
    assert sum(values(metrics, "tailrace_first_token_part_seconds").values()) == pytest.approx(3 * 10.0 + 9.5)


def test_pieces_are_counted_by_the_part_of_their_way() -> None:
    metrics = LifeMetrics()
    ring, text = metrics.observer("ring"), metrics.observer("text")
    ring(0.25, 16)
    ring(0.5, 3)
    text(0.125, 1)
    assert values(metrics, "tailrace_token_path_seconds") == {"ring": 0.75, "text": 0.125, "write": 0, "client": 0}
    assert values(metrics, "tailrace_token_path_pieces") == {"ring": 2, "text": 1, "write": 0, "client": 0}
    assert values(metrics, "tailrace_token_path_tokens") == {"ring": 19, "text": 1, "write": 0, "client": 0}
