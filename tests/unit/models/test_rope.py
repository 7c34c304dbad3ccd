"""Rotary frequencies against values computed with the published formulas (and equal to transformers 5.24)."""

from dataclasses import replace

import pytest

from tailrace.errors import UnsupportedModel
from tailrace.models.config import LatentConfig, ModelConfig, RopeScaling
from tailrace.models.rope import rope_spec


def config(*, theta: float, head_dim: int, scaling: RopeScaling | None = None, max_tokens: int = 4096) -> ModelConfig:
    return ModelConfig(
        architecture="llama",
        vocab_size=64,
        hidden_size=2 * head_dim,
        intermediate_size=64,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        head_dim=head_dim,
        max_model_tokens=max_tokens,
        rms_norm_eps=1e-5,
        rope_theta=theta,
        rope_scaling=scaling,
    )


def test_plain_frequencies_fall_from_one_radian_to_almost_theta() -> None:
    spec = rope_spec(config(theta=10000.0, head_dim=8))

    assert spec.inv_freq == pytest.approx((1.0, 0.1, 0.01, 0.001))
    assert spec.scale == 1.0


def test_rotary_dim_limits_the_turned_pairs() -> None:
    spec = rope_spec(replace(config(theta=10000.0, head_dim=16), rotary_dim=8))

    assert spec.inv_freq == pytest.approx((1.0, 0.1, 0.01, 0.001))


def test_layout_of_pairs_is_the_configs() -> None:
    plain = config(theta=10000.0, head_dim=8)

    assert not rope_spec(plain).interleaved
    assert rope_spec(replace(plain, rope_interleaved=True)).interleaved


def test_with_latent_attention_only_a_part_of_its_own_turns() -> None:
    latent = LatentConfig(latent_dim=16, plain_dim=16, rope_dim=8, value_dim=16)
    spec = rope_spec(replace(config(theta=10000.0, head_dim=24), latent=latent))

    assert spec.inv_freq == pytest.approx((1.0, 0.1, 0.01, 0.001))


def test_linear_divides_every_frequency() -> None:
    spec = rope_spec(config(theta=1e5, head_dim=128, scaling=RopeScaling("linear", factor=4.0)))

    assert spec.inv_freq[0] == pytest.approx(0.25)
    assert spec.inv_freq[32] == pytest.approx(1e5**-0.5 / 4)
    assert spec.scale == 1.0


YARN_V3 = RopeScaling("yarn", factor=40.0, original_max_tokens=4096)
YARN_LONG = RopeScaling("yarn", factor=16.0, original_max_tokens=65536)


@pytest.mark.parametrize(
    ("theta", "scaling", "golden"),
    [
        (
            1e4,
            YARN_V3,
            {
                10: 5.623413e-02,
                11: 3.900693e-02,
                15: 8.334509e-03,
                16: 5.5e-03,
                20: 7.905694e-04,
                22: 1.778279e-04,
                23: 3.333804e-05,
                31: 3.333804e-06,
            },
        ),
        (1.6e5, YARN_LONG, {8: 5.0e-02, 16: 2.265625e-03, 20: 2.969778e-04, 24: 1.953125e-05, 31: 5.680529e-07}),
    ],
)
def test_yarn_frequencies_are_the_published_ones(theta: float, scaling: RopeScaling, golden: dict[int, float]) -> None:
    spec = rope_spec(config(theta=theta, head_dim=64, scaling=scaling))

    assert {pair: spec.inv_freq[pair] for pair in golden} == pytest.approx(golden, rel=5e-7)


def test_yarn_ramp_without_truncation_uses_fractional_bounds() -> None:
    rounded = rope_spec(config(theta=1e4, head_dim=64, scaling=YARN_V3))
    exact = rope_spec(config(theta=1e4, head_dim=64, scaling=replace(YARN_V3, truncate=False)))

    # corr(32) = 10.472..., so pair 11 has gone less far along the ramp than with the bound rounded down to 10.
    assert exact.inv_freq[11] > rounded.inv_freq[11]
    assert exact.inv_freq[10] == rounded.inv_freq[10]


def test_yarn_ramp_ends_at_the_last_rotary_dimension() -> None:
    scaling = RopeScaling("yarn", factor=2.0, original_max_tokens=4096, beta_fast=700.0)
    spec = rope_spec(config(theta=2.0, head_dim=8, scaling=scaling))  # pair 37.4 would turn once: cut to 7

    plain = 2.0 ** (-3 / 4)
    assert spec.inv_freq[3] == pytest.approx(plain / 2 * 3 / 7 + plain * 4 / 7)


def test_yarn_with_equal_bounds_steps_from_plain_to_divided() -> None:
    scaling = RopeScaling("yarn", factor=4.0, original_max_tokens=6, beta_fast=1.0, beta_slow=1.0)
    spec = rope_spec(config(theta=1e4, head_dim=8, scaling=scaling))

    assert spec.inv_freq == pytest.approx((1.0, 0.025, 0.0025, 0.00025))


@pytest.mark.parametrize(
    ("scaling", "scale"),
    [
        (RopeScaling("yarn", factor=4.0, original_max_tokens=32768), 1.138629436),
        (replace(YARN_V3, mscale=1.0, mscale_all_dim=1.0), 1.0),
        (replace(YARN_V3, mscale=0.707, mscale_all_dim=1.0), 1.2608037774 / 1.3688879454),
        (replace(YARN_V3, mscale=0.5), 1.3688879454),
        (replace(YARN_V3, attention_factor=1.5, mscale=0.707, mscale_all_dim=1.0), 1.5),
        (RopeScaling("yarn", factor=1.0, original_max_tokens=4096), 1.0),
    ],
    ids=["plain rule", "equal mscales", "ratio of mscales", "one mscale alone", "given", "no stretch"],
)
def test_yarn_scale_follows_the_rule_the_config_asks_for(scaling: RopeScaling, scale: float) -> None:
    assert rope_spec(config(theta=1e4, head_dim=64, scaling=scaling)).scale == pytest.approx(scale, rel=1e-8)


def test_llama3_keeps_short_waves_divides_long_ones_and_blends_between() -> None:
    scaling = RopeScaling("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_tokens=8192)
    spec = rope_spec(config(theta=5e5, head_dim=128, scaling=scaling))

    golden = {
        0: 1.0,
        28: 3.211446e-03,
        29: 2.166571e-03,
        32: 5.248462e-04,
        35: 9.556212e-05,
        36: 7.784655e-05,
        63: 3.068926e-07,
    }
    assert {pair: spec.inv_freq[pair] for pair in golden} == pytest.approx(golden, rel=5e-7)


def test_dynamic_is_plain_within_the_trained_length() -> None:
    scaling = RopeScaling("dynamic", factor=2.0, original_max_tokens=4096)

    assert (
        rope_spec(config(theta=1e4, head_dim=64, scaling=scaling)).inv_freq
        == rope_spec(config(theta=1e4, head_dim=64)).inv_freq
    )


def test_dynamic_takes_its_base_from_the_longest_sequence_the_server_allows() -> None:
    scaling = RopeScaling("dynamic", factor=2.0, original_max_tokens=4096)
    spec = rope_spec(config(theta=1e4, head_dim=64, scaling=scaling, max_tokens=8192))

    base = 1e4 * 3 ** (64 / 62)
    assert spec.inv_freq[16] == pytest.approx(base**-0.5)


def test_factors_divide_each_frequency_by_its_own_number() -> None:
    spec = rope_spec(config(theta=1e4, head_dim=8, scaling=RopeScaling("factors", factors=(1.0, 2.0, 4.0, 8.0))))

    assert spec.inv_freq == pytest.approx((1.0, 0.05, 0.0025, 0.000125))


def test_factors_of_another_length_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="2 rope factors for 4 rotary pairs"):
        rope_spec(config(theta=1e4, head_dim=8, scaling=RopeScaling("factors", factors=(1.0, 2.0))))


def test_a_factor_that_is_not_positive_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="linear rope scaling by 0"):
        rope_spec(config(theta=1e4, head_dim=8, scaling=RopeScaling("linear", factor=0.0)))


def test_an_odd_rotary_dimension_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="7 is odd"):
        rope_spec(replace(config(theta=1e4, head_dim=8), rotary_dim=7))
