"""Which class a request is served in: each rule, who wins, and what nobody gets."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.classes import STANDARD, ServiceClass, ServiceClasses
from tailrace.errors import InvalidRequest
from tailrace.frontends.standing import ANYBODY, Claim, Client, settle, tier_word

FOUR = ServiceClasses(
    tuple(
        ServiceClass(name, 4.0 - place, ttft_s=1.0 + place, itl_s=0.1 * (1 + place), min_share=0.0, queue_ttl_s=60.0)
        for place, name in enumerate(("a", "b", "c", "d"))
    ),
    default_name="b",
)
SILVER_AT_BEST = Client("shop", "bronze", "silver")


def class_of(claim: Claim, client: Client = ANYBODY, classes: ServiceClasses = STANDARD) -> str:
    return settle(claim, client, classes).class_name


def test_who_says_nothing_is_of_the_default_class() -> None:
    standing = settle(Claim(), ANYBODY, STANDARD)
    assert standing.class_name == "silver"
    assert standing.tenant == ""
    assert (standing.ttft_s, standing.itl_s, standing.queue_ttl_s) == (None, None, None)


@pytest.mark.parametrize(
    ("tier", "name"),
    [
        ("priority", "a"),
        ("fast", "a"),
        ("default", "b"),
        ("scale", "b"),
        ("auto", "b"),
        ("flex", "d"),
        ("c", "c"),
    ],
)
def test_a_tier_is_one_of_openais_words_or_the_name_of_a_class(tier: str, name: str) -> None:
    assert class_of(Claim(service_tier=tier), classes=FOUR) == name


def test_a_class_may_be_called_by_one_of_openais_words_and_is_meant_then() -> None:
    classes = ServiceClasses(tuple(replace(each, name="flex" if each.name == "b" else each.name) for each in FOUR), "c")
    assert class_of(Claim(service_tier="flex"), classes=classes) == "flex"
    assert classes.least.name == "d"


@pytest.mark.parametrize("tier", ["turbo", "Priority", "", "gold "])
def test_an_unknown_tier_is_refused_with_those_that_are_known(tier: str) -> None:
    with pytest.raises(InvalidRequest, match="auto, priority, fast, default, scale, flex, gold, silver, bronze") as no:
        settle(Claim(service_tier=tier, objective="gold"), ANYBODY, STANDARD)
    assert no.value.param == "service_tier"


@pytest.mark.parametrize(("priority", "name"), [(-1, "gold"), (-100, "gold"), (0, "silver"), (1, "bronze")])
def test_a_lower_priority_is_an_earlier_turn(priority: int, name: str) -> None:
    assert class_of(Claim(priority=priority)) == name


@pytest.mark.parametrize(
    ("ttft_s", "itl_s", "name"),
    [
        (1.0, None, "gold"),
        (9.9, None, "gold"),
        (10.0, None, "silver"),
        (59.0, 0.5, "silver"),
        (60.0, 0.5, "bronze"),
        (None, 0.2, "silver"),
        (1e4, 1e3, "bronze"),
        (60.0, 0.149, "gold"),
        (0.5, None, "gold"),  # no class promises as much
        (60.0, 0.01, "gold"),
    ],
)
def test_own_targets_take_the_lowest_class_that_promises_as_much(
    ttft_s: float | None, itl_s: float | None, name: str
) -> None:
    assert class_of(Claim(ttft_s=ttft_s, itl_s=itl_s)) == name


def test_targets_are_compared_with_those_that_hold_on_this_machine() -> None:
    assert class_of(Claim(ttft_s=10.0), classes=STANDARD.scaled(3.0)) == "gold"


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        (Claim(objective="b", ttft_s=100.0, service_tier="flex", priority=-1), "b"),
        (Claim(ttft_s=100.0, service_tier="c", priority=-1), "d"),
        (Claim(service_tier="c", priority=-1), "c"),
        (Claim(service_tier="auto", priority=-1), "a"),
        (Claim(service_tier="default", priority=-1), "b"),
        (Claim(priority=1), "d"),
        (Claim(service_tier="auto"), "c"),
        (Claim(priority=0), "c"),
        (Claim(), "c"),
    ],
)
def test_the_more_exact_word_wins(claim: Claim, name: str) -> None:
    assert class_of(claim, Client("k", "c"), FOUR) == name


@pytest.mark.parametrize(
    "claim",
    [
        Claim(objective="gold"),
        Claim(ttft_s=0.1),
        Claim(service_tier="priority"),
        Claim(service_tier="gold"),
        Claim(priority=-5),
    ],
)
def test_nobody_gets_a_better_class_than_its_client_may(claim: Claim) -> None:
    assert class_of(claim, SILVER_AT_BEST) == "silver"
    assert class_of(claim, Client("shop", "bronze")) == "gold"


def test_a_client_may_ask_for_less() -> None:
    assert class_of(Claim(service_tier="flex"), Client("shop", "gold", "gold")) == "bronze"


def test_own_targets_and_limits_count_where_they_ask_for_less() -> None:
    loose = settle(Claim(ttft_s=20.0, itl_s=0.2, queue_ttl_s=5.0), ANYBODY, STANDARD)
    assert (loose.class_name, loose.ttft_s, loose.itl_s, loose.queue_ttl_s) == ("silver", 20.0, 0.2, 5.0)
    tight = settle(Claim(ttft_s=0.1, itl_s=0.001, queue_ttl_s=1e4), SILVER_AT_BEST, STANDARD)
    assert (tight.class_name, tight.ttft_s, tight.itl_s, tight.queue_ttl_s) == ("silver", None, None, None)


def test_a_client_can_tell_its_users_apart_and_pass_for_nobody_else() -> None:
    assert settle(Claim(tenant="acme"), ANYBODY, STANDARD).tenant == "acme"
    assert settle(Claim(), SILVER_AT_BEST, STANDARD).tenant == "shop"
    assert settle(Claim(tenant="other-client"), SILVER_AT_BEST, STANDARD).tenant == "shop/other-client"


@pytest.mark.parametrize(
    ("tier", "served", "word"),
    [
        (None, "a", None),
        ("auto", "b", "default"),
        ("fast", "a", "priority"),
        ("priority", "b", "default"),
        ("flex", "d", "flex"),
        ("flex", "c", "c"),  # OpenAI has no word for it
        ("a", "b", "b"),
    ],
)
def test_the_answer_speaks_the_language_of_the_question(tier: str | None, served: str, word: str | None) -> None:
    standing = settle(Claim(objective=served), ANYBODY, FOUR)
    assert tier_word(Claim(service_tier=tier), standing, FOUR) == word


seconds = st.none() | st.floats(1e-6, 1e5)
names = st.sampled_from([each.name for each in FOUR])
claims = st.builds(
    Claim,
    ttft_s=seconds,
    itl_s=seconds,
    objective=st.none() | names,
    service_tier=st.none() | names | st.sampled_from(["auto", "default", "flex", "priority", "fast", "scale"]),
    priority=st.none() | st.integers(-3, 3),
    queue_ttl_s=seconds,
)


@given(claims, names)
def test_whatever_is_claimed_the_bounds_of_client_and_class_hold(claim: Claim, best: str) -> None:
    standing = settle(claim, Client("k", "d", best), FOUR)
    order = [each.name for each in FOUR]
    served = FOUR.named(standing.class_name)
    assert order.index(served.name) >= order.index(best)
    assert standing.ttft_s is None or standing.ttft_s > served.ttft_s
    assert standing.itl_s is None or standing.itl_s > served.itl_s
    assert standing.queue_ttl_s is None or standing.queue_ttl_s < served.queue_ttl_s
