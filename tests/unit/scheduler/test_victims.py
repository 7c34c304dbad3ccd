"""Who is chosen to pay, and how often anybody has to. What becomes of it is in test_preemption."""

from dataclasses import replace
from random import Random

import pytest

from tailrace.errors import SetupError
from tailrace.records import PreemptionCount
from tailrace.scheduler.live import LiveRequest
from tailrace.scheduler.preemption import Need, PreemptionConfig, Preemptor
from tailrace.scheduler.restoring import RestoreCosts
from tailrace.types import PreemptionCause
from tests.support.lives import make_live

CONFIG = PreemptionConfig(patience=0.25, min_tokens_between=8, max_lost_share=0.1, burst_tokens=100)
KEPT = RestoreCosts(block_tokens=4, seconds_per_token=0.01, lost_share=0.0)
LOST = replace(KEPT, lost_share=1.0)
PLACE = Need(0, num_places=1)
ROOM, DEADLINE = PreemptionCause.ROOM, PreemptionCause.DEADLINE


def gold(work_tokens: int = 10, arrival_s: float = 0.0) -> LiveRequest:
    """Due a second after its arrival."""
    return make_live("gold", arrival_s=arrival_s, deadline_s=arrival_s + 1.0, work_tokens=work_tokens)


def bronze(num_computed: int = 10, num_shared: int = 0, max_tokens: int = 100) -> LiveRequest:
    return make_live("bronze", num_computed=num_computed, num_shared=num_shared, max_tokens=max_tokens)


def yield_once(preemptor: Preemptor, live: LiveRequest) -> None:
    preemptor.preempted(live, DEADLINE, KEPT, 0.5)
    preemptor.resumed(live, 0.5)


class TestRoom:
    def test_the_lowest_class_pays(self) -> None:
        lives = [make_live(name, num_computed=10) for name in ("bronze", "gold", "silver")]
        assert Preemptor(CONFIG).victim_for_room(lives, LOST, 0.0) is lives[0]

    def test_the_oldest_of_the_best_class_never_pays_while_others_run(self) -> None:
        lives = [make_live("gold", num_computed=num_computed) for num_computed in (4, 400, 800)]
        assert Preemptor(CONFIG).victim_for_room(lives, LOST, 0.0) is lives[1]
        assert Preemptor(CONFIG).victim_for_room(lives[:1], LOST, 0.0) is lives[0]

    def test_within_a_class_who_is_restored_soonest_pays(self) -> None:
        lives = [bronze(num_computed) for num_computed in (4, 80, 20, 60)]
        assert Preemptor(CONFIG).victim_for_room(lives, LOST, 0.0) is lives[2]

    def test_among_equals_the_latest_arrival_pays(self) -> None:
        lives = [bronze() for _ in range(4)]
        assert Preemptor(CONFIG).victim_for_room(lives, LOST, 0.0) is lives[3]

    def test_who_makes_no_room_pays_last(self) -> None:
        lives = [bronze(), bronze(4, num_shared=1), make_live("silver", num_computed=10)]
        lives.append(make_live("gold", num_computed=10))
        assert Preemptor(CONFIG).victim_for_room(lives[1:], LOST, 0.0) is lives[2]

    def test_who_paid_often_is_spared(self) -> None:
        preemptor = Preemptor(CONFIG)
        lives = [bronze() for _ in range(4)]
        lives[3].num_preemptions = 3
        assert preemptor.victim_for_room(lives, LOST, 0.0) is lives[2]
        for live in lives:
            live.num_preemptions = 3
        assert preemptor.victim_for_room(lives, LOST, 0.0) is lives[3]


class TestDeadlines:
    def test_a_lower_class_gives_way_once_the_candidate_has_waited_its_part(self) -> None:
        preemptor, running = Preemptor(CONFIG), [bronze(), make_live("silver")]
        assert preemptor.victims_for(gold(), PLACE, running, KEPT, 0.1) == ()
        assert preemptor.victims_for(gold(), PLACE, running, KEPT, 0.3) == (running[0],)

    def test_much_work_is_waiting_enough(self) -> None:
        running = [bronze()]
        assert Preemptor(CONFIG).victims_for(gold(work_tokens=60), PLACE, running, KEPT, 0.0) == (running[0],)

    def test_nobody_pays_for_what_is_too_late_anyway(self) -> None:
        assert Preemptor(CONFIG).victims_for(gold(), PLACE, [bronze()], KEPT, 0.95) == ()
        assert Preemptor(CONFIG).victims_for(gold(work_tokens=200), PLACE, [bronze()], KEPT, 0.0) == ()

    def test_nobody_pays_for_who_has_no_deadline(self) -> None:
        assert Preemptor(CONFIG).victims_for(make_live("gold"), PLACE, [bronze()], KEPT, 5.0) == ()

    def test_nobody_pays_for_who_lacks_nothing(self) -> None:
        assert Preemptor(CONFIG).victims_for(gold(), Need(0, num_places=0), [bronze()], KEPT, 0.5) == ()

    def test_its_own_class_and_better_ones_do_not_give_way(self) -> None:
        running = [make_live("gold"), make_live("silver")]
        silver = make_live("silver", deadline_s=10.0)
        assert Preemptor(CONFIG).victims_for(silver, PLACE, running, KEPT, 9.0) == ()

    def test_the_lowest_class_gives_way_first_then_the_cheapest_then_the_latest(self) -> None:
        running = [make_live("silver"), bronze(11), bronze(9), bronze(13)]
        assert Preemptor(CONFIG).victims_for(gold(), PLACE, running, KEPT, 0.5) == (running[3],)

    def test_as_many_give_way_as_free_the_blocks_and_no_more(self) -> None:
        running = [bronze(4), bronze(8), bronze(40)]
        need = Need(10, num_places=0)
        assert Preemptor(CONFIG).victims_for(gold(), need, running, LOST, 0.5) == (running[2],)
        assert Preemptor(CONFIG).victims_for(gold(), Need(3, num_places=0), running, LOST, 0.5) == (
            running[0],
            running[1],
        )

    def test_as_many_give_way_as_there_are_places_too_few(self) -> None:
        running = [bronze(4), bronze(8), bronze(40)]
        need = Need(0, num_places=2)
        assert Preemptor(CONFIG).victims_for(gold(), need, running, LOST, 0.5) == (running[0], running[1])
        assert Preemptor(CONFIG).victims_for(gold(), Need(0, num_places=4), running, LOST, 0.5) == ()

    def test_nobody_gives_way_when_all_together_have_too_little(self) -> None:
        running = [bronze(8), bronze(8, num_shared=2)]
        assert Preemptor(CONFIG).victims_for(gold(), Need(3, num_places=0), running, LOST, 0.5) == ()

    def test_nobody_gives_way_when_somebody_is_about_to_end(self) -> None:
        ending = make_live("gold", num_computed=8, num_output_tokens=5, max_tokens=7)
        ending.first_token_s, ending.last_token_s = 0.0, 0.4
        running = [ending, bronze()]
        assert Preemptor(CONFIG).victims_for(gold(), PLACE, running, KEPT, 0.4) == ()
        ending.max_length += 10
        assert Preemptor(CONFIG).victims_for(gold(), PLACE, running, KEPT, 0.4) == (running[1],)

    def test_who_gave_way_often_enough_does_so_no_more(self) -> None:
        preemptor, live = Preemptor(CONFIG), bronze()
        for _ in range(live.service_class.max_yields):
            assert preemptor.victims_for(gold(), PLACE, [live], KEPT, 0.5) == (live,)
            yield_once(preemptor, live)
            live.token_ids.extend(range(CONFIG.min_tokens_between))
        assert preemptor.victims_for(gold(), PLACE, [live], KEPT, 0.5) == ()

    def test_who_just_came_back_gets_on_before_it_gives_way_again(self) -> None:
        preemptor, live = Preemptor(CONFIG), bronze()
        yield_once(preemptor, live)
        live.token_ids.extend(range(CONFIG.min_tokens_between - 1))
        assert preemptor.victims_for(gold(), PLACE, [live], KEPT, 0.5) == ()
        live.token_ids.append(0)
        assert preemptor.victims_for(gold(), PLACE, [live], KEPT, 0.5) == (live,)

    def test_little_work_is_lost_for_deadlines_and_more_may_be_once_more_was_done(self) -> None:
        preemptor, lost = Preemptor(CONFIG), bronze(80)
        preemptor.preempted(lost, DEADLINE, LOST, 0.4)
        lost.num_computed = 0
        preemptor.resumed(lost, 0.5)
        assert preemptor.victims_for(gold(), PLACE, [bronze(40)], LOST, 0.5) == ()
        preemptor.computed(1_000)
        assert preemptor.victims_for(gold(), PLACE, [live := bronze(40)], LOST, 0.5) == (live,)

    def test_what_was_found_again_is_not_held_against_anybody(self) -> None:
        preemptor, live = Preemptor(CONFIG), bronze(100)
        preemptor.preempted(live, DEADLINE, LOST, 0.5)
        assert preemptor.victims_for(gold(), PLACE, [bronze(40)], LOST, 0.5) == ()
        live.num_computed = 96  # of these, as the cache says
        preemptor.resumed(live, 0.6)
        assert preemptor.victims_for(gold(), PLACE, [other := bronze(40)], LOST, 0.5) == (other,)


class TestCounts:
    def test_preemptions_and_lost_tokens_are_counted_by_class_and_cause(self) -> None:
        preemptor = Preemptor(CONFIG)
        first, second = bronze(10), make_live("silver", num_computed=20)
        for live, cause in ((first, DEADLINE), (first, ROOM), (second, ROOM)):
            preemptor.preempted(live, cause, KEPT, 1.0)
            live.num_computed = 8
            preemptor.resumed(live, 2.0)
            live.num_computed = 10
        assert set(preemptor.counts) == {
            PreemptionCount("bronze", DEADLINE, 1, 2),
            PreemptionCount("bronze", ROOM, 1, 2),
            PreemptionCount("silver", ROOM, 1, 12),
        }
        assert (first.num_preemptions, first.num_yields) == (2, 1)

    def test_a_newcomer_resumes_nothing(self) -> None:
        preemptor = Preemptor(CONFIG)
        preemptor.resumed(bronze(), 1.0)
        assert preemptor.counts == ()

    def test_where_preempted_requests_stay_away_for_long_who_can_wait_pays(self) -> None:
        preemptor = Preemptor(CONFIG)
        stream = make_live("bronze", num_computed=8, last_token_s=10.0)
        prompt = make_live("bronze", num_computed=12, deadline_s=60.0)
        assert preemptor.victims_for(gold(), PLACE, [stream, prompt], LOST, 0.5) == (stream,)
        preemptor.preempted(other := bronze(4), ROOM, LOST, 0.0)
        preemptor.resumed(other, 80.0)
        assert preemptor.victims_for(gold(), PLACE, [stream, prompt], LOST, 0.5) == (prompt,)


@pytest.mark.parametrize("seed", range(20))
def test_work_lost_for_deadlines_is_bounded_whatever_happens(seed: int) -> None:
    """An ever hungry gold class, streams that come back at once, and costs that change: lost <= burst + share x all."""
    random, preemptor = Random(seed), Preemptor(replace(CONFIG, min_tokens_between=1))
    running, num_computed, num_lost = [bronze(random.randint(1, 60)) for _ in range(8)], 0, 0
    for step in range(2_000):
        now_s = step * 0.02
        costs = random.choice([KEPT, LOST])
        candidate = gold(arrival_s=now_s - 0.5)
        for live in preemptor.victims_for(candidate, PLACE, running, costs, now_s):
            before, num_kept = live.num_computed, live.num_computed // 4 * 4 if costs is KEPT else 0
            preemptor.preempted(live, DEADLINE, costs, now_s)
            live.num_computed = num_kept
            preemptor.resumed(live, now_s)
            num_lost += before - num_kept
            live.num_computed, live.num_yields = before, 0
        for live in running:
            live.token_ids.append(0)
        num_computed += len(running)
        preemptor.computed(len(running))
    assert 0 < num_lost <= CONFIG.burst_tokens + CONFIG.max_lost_share * num_computed


@pytest.mark.parametrize(
    "wrong",
    [
        {"patience": -0.1},
        {"max_lost_share": 1.5},
        {"min_tokens_between": -1},
        {"burst_tokens": -1},
    ],
)
def test_a_configuration_out_of_range_is_refused_by_name(wrong: dict[str, float]) -> None:
    with pytest.raises(SetupError, match=next(iter(wrong))):
        PreemptionConfig(**wrong)  # type: ignore[arg-type]  # some are floats
