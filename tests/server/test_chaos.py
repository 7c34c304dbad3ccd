"""Processes are killed and stopped, clients leave, dawdle and talk nonsense; every answer is right all the same."""

from benchmarks.chaos.ordeal import Ordeal
from benchmarks.chaos.running import chaos_server


def test_nothing_is_lost_doubled_or_leaked_under_chaos() -> None:
    with chaos_server() as target:
        findings = Ordeal(seconds=30.0, num_clients=6, seed=7, gaps_s=(0.5, 1.9)).run(target)

    assert list(findings.wrong) == []
    assert findings.faults["engine killed"] >= 5
    assert findings.done["stream"] >= 10
