import numpy as np
import pytest

from benchmarks.kernels.mixtures import mixture_subject
from benchmarks.kernels.projections import projections_subject
from benchmarks.kernels.random_weights import random_weights
from benchmarks.kernels.shapes import Projections
from benchmarks.kernels.steps import Case, cases
from benchmarks.kernels.subject import Subject
from benchmarks.kernels.timing import Cost, Profile, measure
from tailrace.models.config import MixtureConfig
from tailrace.models.registry import build_program
from tailrace.ops.api import Ceilings
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.ops.program import Routing
from tests.support.tiny import CONFIGS

CEILINGS = Ceilings(read_bytes_per_s=1e9, dot_ops_per_s=1e12)
DECODE = Case("decode 2", 2, 1, 16)


def profile(subject: Subject, case: Case = DECODE) -> Profile:
    (measured,) = measure(CpuBackend(), subject, [case], num_threads=1, num_rounds=1)
    return measured


def test_up_to_64_rows_are_sequences_and_more_are_one_prompt() -> None:
    assert [(case.num_sequences, case.num_tokens) for case in cases([1, 64, 65])] == [(1, 1), (64, 1), (1, 65)]


def test_a_linear_reads_its_weights_once_and_multiplies_each_with_every_row() -> None:
    costs = profile(projections_subject(Projections(64, {"q": 32, "k": 16}), num_bytes=10_000)).costs

    assert costs == {"linear q+k": Cost(num_bytes=48 * 64 // 2 + 48 * 2 * 4, num_ops=2 * 2 * 48 * 64)}


def test_gate_and_up_are_measured_with_what_follows_them() -> None:
    subject = projections_subject(Projections(64, {"gate": 96, "up": 96}, "expert ", is_gated=True), num_bytes=1)

    assert set(profile(subject).costs) == {"expert linear gate+up, swiglu", "expert linear down"}


def test_linears_of_sampled_rows_cost_what_these_rows_cost() -> None:
    subject = projections_subject(Projections(64, {"head": 96}, is_sampled=True), num_bytes=1)

    assert profile(subject, Case("prefill 16", 1, 16, 0)).costs["linear head"].num_ops == 2 * 64 * 96


def test_of_experts_only_those_that_a_row_chose_are_read() -> None:
    subject = mixture_subject(64, MixtureConfig(Routing(8, 3, "softmax"), expert_size=96))
    costs = profile(subject, Case("decode 1", 1, 1, 16)).costs

    assert set(costs) == {"experts linear router", "route", "dispatch", "experts gate+up, swiglu", "experts down"}
    assert costs["experts down"] == Cost(num_bytes=3 * (64 * 96 // 2 + 64 * 3 * 4), num_ops=2 * 3 * 64 * 96)


def test_attention_reads_the_cache_of_every_sequence() -> None:
    config = CONFIGS["plain"]
    program = build_program(config)
    costs = profile(Subject(program, random_weights(program), range(config.vocab_size))).costs

    values_per_token = 2 * config.num_kv_heads * config.head_dim
    assert costs["attention"].num_bytes == config.num_layers * 2 * 17 * values_per_token * 2
    assert costs["whole step"].num_bytes == pytest.approx(sum(cost.num_bytes for cost in costs.values()) / 2)


def test_figures_are_those_of_the_quickest_round() -> None:
    rounds = [{"linear": 2e-3, "whole step": 3e-3}, {"linear": 1e-3, "whole step": 2e-3}]
    (line,) = Profile(DECODE, {"linear": Cost(5e5, 2e8)}, rounds).lines("m", CEILINGS)

    assert (line.time_ms, line.spread) == pytest.approx((1.0, 1.0))
    assert (line.gbytes_per_s, line.tops) == pytest.approx((0.5, 0.2))
    assert line.ceiling_share == pytest.approx(0.5)
    assert line.is_memory_bound


def test_what_is_timed_with_the_op_behind_it_has_no_line() -> None:
    costs = {"norm": Cost(), "linear": Cost(5e5, 2e8)}
    lines = Profile(DECODE, costs, [{"norm": 0.0, "linear": 1e-3, "whole step": 1e-3}]).lines("m", CEILINGS)

    assert [line.op for line in lines] == ["linear"]


def test_random_norms_have_loud_channels_and_biases_are_zero() -> None:
    weights = random_weights(build_program(CONFIGS["biased, odd sizes"]))

    assert np.ptp(weights["layers.0.mlp_norm"].dequantize()) > 5
    assert not weights["layers.0.q.bias"].dequantize().any()
