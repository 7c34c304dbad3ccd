from collections.abc import Callable

import pytest

from tailrace.app import PlannedModel, plan_model
from tailrace.cli import main
from tailrace.commands import serve
from tailrace.config import EngineConfig, ModelSource, ServeConfig
from tailrace.errors import SetupError
from tailrace.weights.counted import LoadProgress
from tailrace.weights.load import open_checkpoint


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeConfig]:
    configs: list[ServeConfig] = []

    def run(
        config: ServeConfig,
        on_planned: Callable[[PlannedModel], None],
        on_ready: Callable[[str], None],
        progress: LoadProgress,
    ) -> None:
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
    def fail(_config: ServeConfig, **_hooks: object) -> None:
        raise SetupError("port 8000 is taken: give another with --port")

    monkeypatch.setattr("tailrace.app.serve", fail)

    assert main(["serve", "./m.gguf"]) == 1
    assert capsys.readouterr().err == "tailrace: port 8000 is taken: give another with --port\n"


def test_kv_memory_that_bounds_requests_is_said_before_the_model_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: ServeConfig, on_planned: Callable[[PlannedModel], None], **_others: object) -> None:
        on_planned(plan_model(open_checkpoint(config.source.model), config.engine))

    monkeypatch.setattr("tailrace.app.serve", run)

    assert main(["serve", "tiny-deepseek", "--kv-memory", "64MiB"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["serve", "tiny-deepseek", "--kv-memory", "100KiB"]) == 0
    assert capsys.readouterr().err == (
        "KV memory holds 128 tokens at once: no request may have more, though 2,048 were allowed "
        "(--kv-memory gives it more)\n"
    )


@pytest.mark.parametrize("max_model_tokens", [1, 2049, 4000])
def test_a_bound_that_the_model_cannot_have_is_refused_with_those_it_can(
    max_model_tokens: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "tiny-deepseek", "--port", "0", "--max-model-tokens", f"{max_model_tokens}"]) == 1

    assert capsys.readouterr().err == (
        f"tailrace: tiny-deepseek takes 2 to 2,048 tokens, prompt and answer together, not {max_model_tokens:,}: "
        "change --max-model-tokens\n"
    )
