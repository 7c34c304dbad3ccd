"""The one device switch."""

import sys

import pytest

from tailrace.errors import SetupError
from tailrace.ops.load import load_backend


@pytest.mark.parametrize(("name", "expected"), [("auto", "cpu"), ("cpu", "cpu"), ("reference", "reference")])
def test_names_choose_the_back_end(name: str, expected: str) -> None:
    assert load_backend(name).name == expected


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(SetupError, match=r"'tpu'.*auto, cpu, reference"):
        load_backend("tpu")


def test_a_missing_native_module_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tailrace.ops.cpu", raising=False)
    monkeypatch.delattr("tailrace.ops._native", raising=False)
    monkeypatch.setitem(sys.modules, "tailrace.ops._native", None)

    with pytest.raises(SetupError, match="native module is not built"):
        load_backend("cpu")
    assert load_backend("reference").name == "reference"
