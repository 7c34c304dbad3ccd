from benchmarks.kernels.counted import calls
from tailrace.ops.cpu.backend import supported_isas


def test_every_counted_step_runs_and_has_a_name_of_its_own() -> None:
    names = []
    for call in calls(supported_isas()[-1]):
        call()
        names.append(call.name)
    assert len(set(names)) == len(names)
    assert {name.split(",")[0] for name in names} >= {"linear int4", "head int8", "attention"}
