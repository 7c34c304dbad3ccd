"""Models by hub id, with a hub that never leaves this machine."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from tailrace.errors import SetupError, UnsupportedModel
from tailrace.weights.hub import hub_directory, is_hub_id
from tailrace.weights.load import open_checkpoint
from tests.unit.weights.model_files import write_directory


@dataclasses.dataclass
class Hub:
    """What was asked of the hub; `answer` is its directory, or what goes wrong."""

    answer: Path | Exception
    asked: list[tuple[str, str | None, list[str]]] = dataclasses.field(default_factory=list)

    def snapshot_download(self, name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        self.asked.append((name, revision, allow_patterns))
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)


FIRST = ["config.json"]
REST = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub(tmp_path / "snapshots" / "abc123")
    write_directory(tmp_path / "snapshots" / "abc123")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    return hub


def test_a_hub_model_keeps_its_id_as_name(hub: Hub) -> None:
    assert open_checkpoint("maker/tiny-model").name == "maker/tiny-model"
    assert hub.asked == [("maker/tiny-model", None, FIRST), ("maker/tiny-model", None, REST)]


def test_a_model_that_cannot_run_is_refused_before_its_weights_are_fetched(hub: Hub, tmp_path: Path) -> None:
    write_directory(
        tmp_path / "snapshots" / "abc123", settings={"quantization_config": {"quant_method": "bitsandbytes"}}
    )
    with pytest.raises(UnsupportedModel, match=r"config\.json: weights quantised by method 'bitsandbytes'"):
        open_checkpoint("maker/tiny-model")
    assert hub.asked == [("maker/tiny-model", None, FIRST)]


def test_a_hub_model_without_a_config_says_what_to_name(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "snapshots" / "abc123" / "config.json").unlink()
    with pytest.raises(SetupError, match=r"'maker/tiny-model' has no config\.json on the hub: .* GGUF file"):
        open_checkpoint("maker/tiny-model")
    assert hub.asked == [("maker/tiny-model", None, FIRST)]


def test_a_revision_follows_an_at_sign(hub: Hub) -> None:
    assert hub_directory("maker/tiny@v1.0") == hub.answer
    assert hub.asked == [("maker/tiny", "v1.0", FIRST), ("maker/tiny", "v1.0", REST)]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ConnectionError("no route to host\nmore"), r"\(no route to host\)"),
        (RuntimeError(), r"\(RuntimeError\)"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_hub_that_cannot_be_reached_is_one_line(hub: Hub, failure: Exception, reason: str) -> None:
    hub.answer = failure
    with pytest.raises(SetupError, match=f"model 'maker/tiny' is no file here .*{reason}.*check the name") as caught:
        hub_directory("maker/tiny")
    assert "\n" not in str(caught.value)


def test_the_hub_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: Any = None  # what makes an import fail
    monkeypatch.setitem(sys.modules, "huggingface_hub", missing)
    with pytest.raises(SetupError, match=r"pip install 'tailrace\[hub\]'"):
        hub_directory("maker/tiny")


@pytest.mark.parametrize(
    ("model", "is_id"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", True),
        ("a/b@main", True),
        ("./a/b", False),
        ("/a/b", False),
        ("a/b/c", False),
        ("../b", False),
        ("model", False),
        ("a/", False),
        ("https://x/y", False),
    ],
)
def test_an_id_is_an_owner_and_a_name(model: str, is_id: bool) -> None:
    assert is_hub_id(model) is is_id
