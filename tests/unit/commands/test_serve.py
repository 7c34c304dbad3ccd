from collections.abc import Callable

import pytest

from tailrace.cli import main
from tailrace.commands import serve
from tailrace.config import EngineConfig, ModelSource, ServeConfig
from tailrace.errors import SetupError
from tailrace.weights.counted import LoadProgress


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeConfig]:
    configs: list[ServeConfig] = []

    def run(config: ServeConfig, on_ready: Callable[[str], None], progress: LoadProgress) -> None:
        configs.append(config)
        on_ready("http://127.0.0.1:8000")

    monkeypatch.setattr("tailrace.app.serve", run)
    monkeypatch.setattr(serve, "fetch_default_model", lambda _model: None)
    return configs


def test_without_arguments_every_setting_is_its_default(
    served: list[ServeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve"]) == 0

    assert served == [ServeConfig()]
    assert capsys.readouterr().err == "Serving at http://127.0.0.1:8000/v1 (Ctrl-C stops)\n"


def test_every_argument_reaches_its_setting(served: list[ServeConfig]) -> None:
    arguments = (
        "serve ./m.gguf --host 0.0.0.0 --port 8123 --name mine --max-model-tokens 2048 --max-running 8 "
        "--budget-tokens 256 --chunk-tokens 32 --kv-memory 1.5GiB --kv-format f32 --block-tokens 32 --threads 2 "
        "--backend reference --quantize int8"
    )

    assert main(arguments.split()) == 0

    engine = EngineConfig(
        backend="reference",
        num_threads=2,
        block_tokens=32,
        kv_memory_bytes=3 << 29,
        kv_format="f32",
        budget_tokens=256,
        chunk_tokens=32,
        max_running=8,
        max_model_tokens=2048,
    )
    assert served == [ServeConfig(ModelSource("./m.gguf", "int8"), engine, "mine", "0.0.0.0", 8123)]


def test_a_server_that_cannot_start_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_config: ServeConfig, on_ready: Callable[[str], None], progress: LoadProgress) -> None:
        raise SetupError("port 8000 is taken: give another with --port")

    monkeypatch.setattr("tailrace.app.serve", fail)

    assert main(["serve", "./m.gguf"]) == 1
    assert capsys.readouterr().err == "tailrace: port 8000 is taken: give another with --port\n"
