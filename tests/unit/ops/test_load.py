"""The one device switch."""

import sys

import pytest

from tailrace.errors import SetupError
from tailrace.ops.load import load_backend


@pytest.mark.parametrize(("name", "expected"), [("auto", "cpu"), ("cpu", "cpu"), ("reference", "reference")])
def test_names_choose_the_back_end(name: str, expected: str) -> None:
    assert load_backend(name).name == expected


def test_the_back_end_chooses_how_to_keep_kv_unless_it_is_told() -> None:
    assert load_backend("cpu").kv_format == "bf16"
    assert load_backend("cpu", "int8").kv_format == "int8"
    assert load_backend("reference").kv_format == load_backend("reference", "f32").kv_format == "f32"


def test_a_kv_format_that_a_back_end_lacks_is_refused() -> None:
    with pytest.raises(SetupError, match="reference back end keeps KV in f32, not in int8"):
        load_backend("reference", "int8")


def test_an_unknown_name_is_refused_with_the_choices() -> None:
    with pytest.raises(SetupError, match=r"'tpu'.*auto, cpu, reference"):
        load_backend("tpu")


def test_a_missing_native_module_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tailrace.ops.cpu.backend", raising=False)
    monkeypatch.delattr("tailrace.ops._native", raising=False)
    monkeypatch.setitem(sys.modules, "tailrace.ops._native", None)

    with pytest.raises(SetupError, match="native module is not built"):
        load_backend("cpu")
    assert load_backend("reference").name == "reference"
