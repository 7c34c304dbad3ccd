import pytest

from benchmarks.kernels import latent_forms
from benchmarks.kernels.steps import Case
from tailrace.ops.cpu.backend import CpuBackend
from tailrace.ops.cpu.stages import AttentionStage, GemmStage
from tailrace.ops.program import Program

CASES = [Case("", 1, 1, 64), Case("", 1, 3, 0)]


@pytest.mark.parametrize(
    ("program", "stages"),
    [
        (latent_forms.absorbed(), latent_forms.ABSORBED),
        (latent_forms.expanded(), (AttentionStage,)),
        (latent_forms.expansion(), (GemmStage,)),
    ],
)
def test_what_is_timed_of_a_form_is_there(program: Program, stages: tuple[type, ...]) -> None:
    seconds = list(latent_forms.measure(CpuBackend(), program, CASES, stages, num_threads=1))

    assert len(seconds) == len(CASES)
    assert all(of_case > 0 for of_case in seconds)
