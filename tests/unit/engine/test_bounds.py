from dataclasses import replace

import pytest

from tailrace.engine.bounds import Bounds, IntakeConfig
from tailrace.errors import Overloaded, RefusalReason, SetupError
from tailrace.types import Request, SamplingParams

CONFIG = IntakeConfig(max_queued=12, max_queued_tokens=120, max_model_tokens=32)


class Door:
    def __init__(self, config: IntakeConfig = CONFIG) -> None:
        self.bounds = Bounds(config)
        self.num_entered = 0

    def enter(
        self, count: int = 1, class_name: str = "", *, tenant: str = "", now_s: float = 0.0, is_warmup: bool = False
    ) -> list[str]:
        """So many requests of four tokens each; their ids."""
        names = []
        for _ in range(count):
            self.num_entered += 1
            request = Request(
                f"r{self.num_entered}",
                (1, 2, 3, 4),
                SamplingParams(1),
                class_name=class_name,
                tenant=tenant,
                is_warmup=is_warmup,
            )
            self.bounds.check(request)
            self.bounds.enter(request, now_s)
            names.append(request.request_id)
        return names

    def is_full(self, class_name: str = "", *, tenant: str = "") -> bool:
        try:
            self.enter(1, class_name, tenant=tenant)
        except Overloaded:
            return True
        return False


def test_a_class_leaves_room_for_those_above() -> None:
    door = Door()
    door.enter(8, "bronze")
    assert door.is_full("bronze")
    door.enter(2, "silver")
    assert door.is_full()  # silver is the default class
    door.enter(2, "gold")
    assert door.is_full("gold")


def test_a_class_leaves_tokens_for_those_above() -> None:
    door = Door(replace(CONFIG, max_queued=1_000))
    door.enter(20, "bronze")  # of 80 tokens
    assert door.is_full("bronze")
    door.enter(10, "gold")
    assert door.is_full("gold")


def test_any_class_may_fill_half() -> None:
    door = Door(replace(CONFIG, max_queued=1))
    door.enter(1, "bronze")
    assert door.is_full("gold")


def test_a_tenant_may_have_so_many_at_once_queued_or_not() -> None:
    door = Door(replace(CONFIG, max_tenant_requests=2))
    first, second = door.enter(2, "gold", tenant="a")
    door.bounds.start(first, now_s=1.0)
    with pytest.raises(Overloaded, match="2 requests of this tenant are here already") as refusal:
        door.enter(1, "bronze", tenant="a")
    assert refusal.value.reason is RefusalReason.TENANT_LIMIT
    door.enter(2, tenant="b")
    door.bounds.end(first, now_s=2.0)
    door.bounds.end(first, now_s=2.0)  # counts once
    door.enter(1, tenant="a")
    assert door.is_full("gold", tenant="a")
    assert second in door.bounds


def test_who_names_no_tenant_is_one_together() -> None:
    door = Door(replace(CONFIG, max_tenant_requests=2))
    door.enter(2)
    assert door.is_full()
    assert not door.is_full(tenant="somebody")


def test_what_is_computed_ahead_is_no_tenants() -> None:
    door = Door(replace(CONFIG, max_tenant_requests=1))
    (warmup,) = door.enter(1, is_warmup=True)
    door.enter(1)
    door.enter(1, is_warmup=True)
    door.bounds.end(warmup, now_s=1.0)
    assert door.is_full()


def test_a_tenant_is_told_to_come_back_when_one_of_its_requests_will_have_ended() -> None:
    door = Door(replace(CONFIG, max_tenant_requests=4))
    for _ in range(100):
        (name,) = door.enter(1, tenant="a", now_s=0.0)
        door.bounds.end(name, now_s=20.0)
    door.enter(4, tenant="a")
    with pytest.raises(Overloaded) as refusal:
        door.enter(1, tenant="a")
    assert refusal.value.retry_after_s == pytest.approx(5.0, rel=0.01)


def test_nothing_is_kept_of_who_has_gone() -> None:
    door = Door(replace(CONFIG, max_tenant_requests=2))
    for number in range(1_000):
        (name,) = door.enter(1, tenant=f"tenant-{number}")
        door.bounds.start(name, now_s=1.0)
        door.bounds.end(name, now_s=2.0)
    assert door.bounds.request_ids == ()
    assert door.bounds.num_queued == 0
    assert not door.bounds._tenants


def test_a_tenant_that_may_have_nothing_is_a_mistake() -> None:
    with pytest.raises(SetupError, match="max_tenant_requests"):
        replace(CONFIG, max_tenant_requests=0)
