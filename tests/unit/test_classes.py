from dataclasses import replace

import pytest

from tailrace.classes import STANDARD, ServiceClass, ServiceClasses
from tailrace.errors import SetupError

ONE = ServiceClass("one", 1.0, ttft_s=1.0, itl_s=0.1, min_share=0.0, queue_ttl_s=1.0)


def test_a_class_is_found_by_its_name_and_the_default_one_by_none() -> None:
    assert STANDARD.named("gold").name == "gold"
    assert STANDARD.named("") is STANDARD.named("unheard of") is STANDARD.default
    assert "bronze" in STANDARD
    assert "tin" not in STANDARD
    assert STANDARD.least.name == "bronze"


def test_scaling_stretches_targets_and_nothing_else() -> None:
    slow = STANDARD.scaled(3.0)
    assert slow.named("gold") == replace(STANDARD.named("gold"), ttft_s=3.0, itl_s=0.15000000000000002)


def test_a_class_that_was_promised_no_share_still_gets_one() -> None:
    assert [each.share for each in STANDARD] == [0.01, 0.05, 0.05]


def test_the_tightest_gap_is_that_of_any_class() -> None:
    assert STANDARD.tightest_itl_s == 0.05
    assert ServiceClasses((ONE, replace(ONE, name="two", itl_s=0.02)), "one").tightest_itl_s == 0.02


def test_nobody_is_refused_who_has_the_machine_for_himself() -> None:
    for each, patient in zip(STANDARD, STANDARD.patient, strict=True):
        assert not patient.is_refused_late
        assert patient.queue_ttl_s > 1e6
        assert (patient.name, patient.ttft_s, patient.itl_s) == (each.name, each.ttft_s, each.itl_s)


@pytest.mark.parametrize(
    ("classes", "default", "complaint"),
    [
        ((), "one", "1 to 8"),
        ((ONE, ONE), "one", "same name"),
        ((ONE,), "two", "none of one"),
        ((ONE, replace(ONE, name="two", priority=2.0)), "one", "falling priority"),
        ((replace(ONE, min_share=0.4), replace(ONE, name="two", min_share=0.2)), "one", "more than half"),
    ],
)
def test_classes_that_make_no_sense_are_refused(
    classes: tuple[ServiceClass, ...], default: str, complaint: str
) -> None:
    with pytest.raises(SetupError, match=complaint):
        ServiceClasses(classes, default)


@pytest.mark.parametrize("name", ["", "two words", "_x", "a" * 33, "goldé", "a\n"])
def test_a_name_that_no_header_could_carry_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match="cannot be called"):
        replace(ONE, name=name)


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", 0.0), ("itl_s", -1.0), ("ttft_s", float("nan")), ("min_share", 1.0), ("max_yields", -1)],
)
def test_a_class_with_impossible_figures_is_refused(field: str, value: float) -> None:
    with pytest.raises(SetupError, match=field):
        replace(ONE, **{field: value})  # type: ignore[arg-type]  # one field at a time
