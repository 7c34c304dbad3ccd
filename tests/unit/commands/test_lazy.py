import pytest
from cyclopts import App

from tailrace.commands.lazy import LazyExpertsOption, lazy_experts
from tailrace.config import LazyExperts


def parsed(*arguments: str) -> LazyExperts:
    app = App(result_action="return_value")

    @app.default
    def run(model: str | None = None, /, *, lazy: LazyExpertsOption = None) -> LazyExperts:
        return lazy_experts(lazy)

    found: LazyExperts = app(list(arguments), exit_on_error=False, print_error=False)
    return found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), None),
        (("model.gguf", "--lazy"), "auto"),
        (("--lazy", "512MiB"), 512 << 20),
        (("model.gguf", "--lazy", "2GB"), 2_000_000_000),
    ],
)
def test_it_may_be_given_with_a_bound_or_without_one(arguments: tuple[str, ...], expected: LazyExperts) -> None:
    assert parsed(*arguments) == expected
