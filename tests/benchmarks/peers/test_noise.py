"""What others use of the machine is what is left when our own processes are taken away."""

import pytest

from benchmarks.peers import noise


def test_others_have_what_neither_we_nor_our_children_used(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 50.0, "machine": 1000.0, "own": 7.0}
    monkeypatch.setattr("time.monotonic", lambda: clock["now"])
    monkeypatch.setattr(noise, "_machine_s", lambda: clock["machine"])
    monkeypatch.setattr(noise, "_own_s", lambda: clock["own"])
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    others = noise.OtherCpu()
    clock |= {"now": 60.0, "machine": 1018.0, "own": 20.0}
    assert others.share() == pytest.approx((18 - 13) / 20)


def test_the_machine_cannot_have_been_idler_than_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_s = iter([10.0, 10.5])
    own_s = iter([1.0, 1.6])
    monkeypatch.setattr(noise, "_machine_s", lambda: next(machine_s))
    monkeypatch.setattr(noise, "_own_s", lambda: next(own_s))
    assert noise.OtherCpu().share() == 0.0
