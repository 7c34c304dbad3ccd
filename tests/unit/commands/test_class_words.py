from tailrace.classes import STANDARD
from tailrace.commands.class_words import describe_classes


def test_classes_are_told_with_their_targets() -> None:
    assert describe_classes(STANDARD, 1.0) == (
        "Classes: gold 1 s and 50 ms, silver (default) 10 s and 150 ms, bronze 60 s and 500 ms "
        "(to the first token, and from one to the next)"
    )


def test_targets_are_told_as_they_hold_and_how_much_that_is() -> None:
    classes, scale = describe_classes(STANDARD, 2.7).splitlines()
    assert "gold 2.7 s and 135 ms, silver (default) 27 s and 405 ms, bronze 162 s and 1.35 s" in classes
    assert scale.startswith("These targets are 2.7 times the configured ones")
