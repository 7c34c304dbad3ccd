import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.kvcache.placement import NUM_GROUPS, RequestGroups, Shape

SHAPES = st.builds(Shape, st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))


def shapes_around(num_prompt: int, num_output: int, count: int, seed: int) -> list[Shape]:
    """Lengths within a factor of two."""
    draw = random.Random(seed)
    return [
        Shape(int(num_prompt * draw.uniform(0.7, 1.4)), int(num_output * draw.uniform(0.7, 1.4)), num_output)
        for _ in range(count)
    ]


def place_all(groups: RequestGroups, *kinds: tuple[int, int]) -> None:
    traffic = [shape for seed, kind in enumerate(kinds) for shape in shapes_around(*kind, 1_000, seed)]
    random.Random(1).shuffle(traffic)
    for shape in traffic:
        groups.place(shape)


def found(groups: RequestGroups, num_prompt: int, num_output: int) -> set[int]:
    return {groups.group_of(shape) for shape in shapes_around(num_prompt, num_output, 100, 9)}


def most(groups: RequestGroups, num_prompt: int, num_output: int) -> int:
    """Where nearly all of a kind are."""
    counts = Counter(groups.group_of(shape) for shape in shapes_around(num_prompt, num_output, 100, 9))
    ((group, count),) = counts.most_common(1)
    assert count > 60
    return group


def test_three_kinds_of_requests_come_to_three_groups() -> None:
    groups = RequestGroups()
    kinds = [(200, 10), (800, 200), (2_000, 3_000)]
    place_all(groups, *kinds)
    assert [found(groups, *kind) for kind in kinds] == [{0}, {1}, {2}]


def test_where_all_answers_are_expected_to_be_alike_the_prompts_tell() -> None:
    groups = RequestGroups()
    draw = random.Random(0)
    for _ in range(1_000):
        groups.place(Shape(draw.choice((50, 500, 5_000)), 100, 100))
    assert sorted(groups.group_of(Shape(num_prompt, 100, 100)) for num_prompt in (50, 500, 5_000)) == [0, 1, 2]


def test_two_kinds_of_requests_come_to_two_groups() -> None:
    groups = RequestGroups()
    for _ in range(500):
        groups.place(Shape(10, 4, 4))
        groups.place(Shape(2_000, 4, 4))
    assert (groups.group_of(Shape(10, 4, 4)), groups.group_of(Shape(2_000, 4, 4))) == (0, 2)


def test_groups_follow_traffic_that_changes() -> None:
    groups = RequestGroups()
    place_all(groups, (100, 30))
    place_all(groups, (100, 30), (100, 300))
    assert most(groups, 100, 30) != most(groups, 100, 300)


@given(st.lists(SHAPES, max_size=30), SHAPES)
def test_every_request_has_a_group(before: list[Shape], shape: Shape) -> None:
    groups = RequestGroups()
    for other in before:
        groups.place(other)
    assert 0 <= groups.group_of(shape) < NUM_GROUPS
    assert 0 <= groups.place(shape) < NUM_GROUPS
