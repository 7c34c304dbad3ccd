import json
import random
from collections.abc import Iterator

import pytest

from tailrace.scheduler.plan import StepSize
from tailrace.scheduler.steptime import COEFFICIENTS, REGIME_BOUNDS, StepTimeModel

TRUE_S = (  # of each regime; like the default model on two cores
    (4.7e-3, 0.0, 0.0, 1.3e-6, 0.0),
    (2.8e-3, 0.7e-3, 0.57e-3, 1.1e-6, 0.49e-6),
    (1.3e-3, 0.88e-3, 0.39e-3, 1.1e-6, 0.42e-6),
    (0.3e-3, 0.91e-3, 0.5e-3, 1.0e-6, 0.45e-6),
)


def took_s(size: StepSize) -> float:
    regime = sum(size.num_tokens > bound for bound in REGIME_BOUNDS)
    num_shared = size.num_read_tokens - size.num_alone_read_tokens
    counts = (1, size.num_tokens, size.num_sampled, size.num_alone_read_tokens, num_shared)
    return sum(each_s * count for each_s, count in zip(TRUE_S[regime], counts, strict=True))


def step(num_streams: int, context: int, num_prefill: int = 0, start: int = 0) -> StepSize:
    num_alone = num_streams * context
    num_shared = num_prefill * start + num_prefill * (num_prefill + 1) // 2
    return StepSize(num_streams + num_prefill, num_streams, num_alone + num_shared, num_alone)


def traffic(rng: random.Random, count: int) -> Iterator[StepSize]:
    for _ in range(count):
        num_prefill = rng.choice((0, 0, 8, 32, rng.randrange(60, 200)))
        num_streams = rng.randrange(0 if num_prefill else 1, 33)
        yield step(num_streams, rng.randrange(1, 2_000), num_prefill, rng.randrange(4_000))


def taught(count: int = 2_000, noise: float = 0.0) -> StepTimeModel:
    rng, model = random.Random(count), StepTimeModel()
    for size in traffic(rng, count):
        model.observe(size, took_s(size) * rng.lognormvariate(0.0, noise))
    return model


def test_predicts_nothing_before_the_first_step() -> None:
    model = StepTimeModel()
    assert (model.predict(step(1, 10)), model.prefill_rate) == (None, None)
    model.observe(step(1, 10), 0.005)
    assert model.predict(step(1, 10)) == pytest.approx(0.005)
    assert model.prefill_rate is None  # from one row it cannot be told


def test_the_first_step_was_not_predicted() -> None:
    model, errors = StepTimeModel(), []
    for time_s in (0.005, 0.004):
        model.observe(step(1, 10), time_s)
        errors.append(model.median_error)
    assert errors == [None, pytest.approx(0.25)]


def test_says_how_fast_prompts_are_once_it_has_seen_some() -> None:
    model = StepTimeModel(512)
    for _ in range(20):
        model.observe(step(1, 10), 1.0)
    assert model.prefill_rate is None
    for _ in range(20):
        model.observe(StepSize(500, 1, 125_000), 0.25)
    assert model.prefill_rate == pytest.approx(2_000, rel=0.1)


def test_learns_regimes_that_differ() -> None:
    model = taught()
    for size in traffic(random.Random(1), 200):
        assert model.predict(size) == pytest.approx(took_s(size), rel=0.08)


def test_its_error_is_that_of_predictions_made_before() -> None:
    assert taught().median_error == pytest.approx(0.0, abs=0.01)
    noisy = taught(noise=0.3).median_error
    assert noisy is not None
    assert 0.1 < noisy < 0.4


def test_a_regime_that_has_seen_nothing_borrows_from_the_nearest() -> None:
    model = StepTimeModel()
    for _ in range(200):
        model.observe(step(16, 100), took_s(step(16, 100)))
    nearest = model.predict(step(64, 100))
    assert nearest is not None
    assert nearest == pytest.approx(took_s(step(64, 100)), rel=0.5)
    beyond = model.predict(step(65, 100))
    assert beyond is not None
    assert beyond > nearest
    assert model.predict(step(1, 100)) is not None


def test_the_first_step_of_a_regime_counts() -> None:
    model = StepTimeModel()
    for _ in range(50):
        model.observe(step(16, 100), took_s(step(16, 100)))
    chunk = step(0, 0, 128)
    model.observe(chunk, took_s(chunk))
    assert model.predict(chunk) == pytest.approx(took_s(chunk), rel=0.1)


def test_a_machine_that_becomes_slower_does_so_for_all_regimes() -> None:
    model = taught()
    for _ in range(40):
        model.observe(step(16, 500), 2.0 * took_s(step(16, 500)))
    for size in (step(1, 500), step(4, 500), step(16, 500), step(16, 500, 100)):
        assert model.predict(size) == pytest.approx(2.0 * took_s(size), rel=0.15)
    assert model.to_dict()["regimes"][0]["step_s"] > 1.5 * taught().to_dict()["regimes"][0]["step_s"]


def test_noise_does_not_carry_away_regimes_that_nothing_is_seen_of() -> None:
    model, rng = taught(), random.Random(4)
    for _ in range(20_000):
        model.observe(step(16, 500), took_s(step(16, 500)) * rng.lognormvariate(0.0, 0.15))
        assert model.predict(step(1, 500)) == pytest.approx(took_s(step(1, 500)), rel=0.6)
    assert model.predict(step(16, 500)) == pytest.approx(took_s(step(16, 500)), rel=0.2)


def test_one_step_that_took_ten_times_as_long_is_almost_forgotten_with_the_next() -> None:
    model = taught(noise=0.05)
    model.observe(step(16, 500), 10.0 * took_s(step(16, 500)))
    assert model.predict(step(16, 500)) == pytest.approx(took_s(step(16, 500)), rel=0.12)
    for _ in range(5):
        model.observe(step(16, 500), took_s(step(16, 500)))
    assert model.predict(step(16, 500)) == pytest.approx(took_s(step(16, 500)), rel=0.05)


def test_more_work_of_a_regime_never_takes_less_time() -> None:
    model = taught(300, noise=0.5)
    for size in traffic(random.Random(2), 300):
        if size.num_tokens in REGIME_BOUNDS:
            continue
        least = model.predict(size)
        more = StepSize(size.num_tokens + 1, size.num_sampled + 1, size.num_read_tokens + 1, size.num_alone_read_tokens)
        more_s = model.predict(more)
        assert least is not None
        assert more_s is not None
        assert more_s >= least


def test_steps_of_nothing_or_no_time_are_ignored() -> None:
    model = StepTimeModel()
    for _ in range(10):
        model.observe(StepSize(0, 0, 0), 1.0)
        model.observe(step(1, 10), 0.0)
    assert model.predict(step(1, 10)) is None


def test_the_prefill_rate_is_that_of_full_steps() -> None:
    full = step(0, 0, 512)
    assert taught().prefill_rate == pytest.approx(512 / took_s(full), rel=0.05)


def test_can_be_saved_and_loaded() -> None:
    model = taught()
    loaded = StepTimeModel.from_dict(json.loads(json.dumps(model.to_dict())))
    for size in traffic(random.Random(3), 100):
        assert loaded.predict(size) == pytest.approx(model.predict(size))
    assert loaded.prefill_rate == pytest.approx(model.prefill_rate)
    assert loaded.to_dict() == model.to_dict()
    loaded.observe(step(1, 10), 0.005)
    assert loaded.median_error is not None


def test_saves_regimes_that_have_seen_nothing_as_such() -> None:
    model = StepTimeModel()
    assert model.to_dict()["regimes"] == [None] * 4
    assert StepTimeModel.from_dict(model.to_dict()).predict(step(1, 10)) is None
    for _ in range(10):
        model.observe(step(1, 10), 0.005)
    assert [known is None for known in model.to_dict()["regimes"]] == [False, True, True, True]
    assert StepTimeModel.from_dict(model.to_dict()).predict(step(9, 10)) == model.predict(step(9, 10))


def test_refuses_what_it_has_not_saved() -> None:
    saved = taught().to_dict()
    with pytest.raises(ValueError, match="bounded by"):
        StepTimeModel.from_dict(saved | {"regime_bounds": [1, 2]})
    with pytest.raises(ValueError, match="bounded by"):
        StepTimeModel.from_dict(saved | {"regimes": saved["regimes"][1:]})
    with pytest.raises(ValueError, match="none negative"):
        StepTimeModel.from_dict(saved | {"regimes": [dict.fromkeys(COEFFICIENTS, -1.0), None, None, None]})
    with pytest.raises(ValueError, match="none negative"):
        StepTimeModel.from_dict(saved | {"regimes": [{"step_s": 1.0}, None, None, None]})


def test_a_long_prompt_takes_more_than_its_tokens_since_it_reads_more() -> None:
    model = taught()
    whole = sum(took_s(StepSize(500, 1, 500 * before + 500 * 501 // 2)) for before in range(0, 4_000, 500))
    assert model.prompt_s(4_000) == pytest.approx(whole, rel=0.1)
    behind = model.prompt_s(100, 4_000)
    assert behind is not None
    assert behind == pytest.approx(took_s(StepSize(100, 1, 100 * 4_050)), rel=0.1)
