import pytest

from tests.architecture.tree import Module, parse_package


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    return parse_package()
