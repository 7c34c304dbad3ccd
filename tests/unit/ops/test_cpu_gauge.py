"""The processor is measured with every instruction set; how fast it is, no test can say."""

import pytest

from tailrace.ops.cpu.backend import supported_isas
from tailrace.ops.cpu.gauge import CpuGauge
from tailrace.ops.load import instruction_set, load_gauge
from tailrace.telemetry.roofline import FEW_ROWS

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("isa", supported_isas())
def test_every_instruction_set_reads_and_multiplies(isa: str) -> None:
    gauge = CpuGauge(isa, 2, MEBIBYTE)

    assert gauge.read(MEBIBYTE) > 0.0
    assert gauge.read(MEBIBYTE // 16) > 0.0
    assert {numbers for numbers in gauge.numbers if gauge.multiply(numbers, 1000) > 0.0} == set(gauge.numbers)
    assert {"int8", "bf16", "f32"} <= set(gauge.numbers)


def test_only_matrix_units_have_a_rate_for_few_rows() -> None:
    assert {isa for isa in supported_isas() if FEW_ROWS in CpuGauge(isa, 1, MEBIBYTE).numbers} <= {"amx"}


def test_another_kind_of_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of int8, bf16, f32"):
        CpuGauge("portable", 1, MEBIBYTE).multiply("fp4", 1)


def test_the_back_end_that_would_serve_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_CPU_ISA", "portable")
    assert instruction_set() == "portable"
    assert load_gauge(1, MEBIBYTE).numbers == ("int8", "bf16", "f32")
