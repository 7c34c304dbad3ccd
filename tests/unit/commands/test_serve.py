import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.app import PlannedModel, plan_model
from tailrace.cli import main
from tailrace.commands import serve
from tailrace.config import EngineConfig, KvEventsConfig, ModelSource, OtlpConfig, ServeConfig, WarmConfig
from tailrace.errors import SetupError
from tailrace.frontends.trace_sampler import TraceSampler
from tailrace.levels.config import LevelsConfig
from tailrace.ops.api import Progress
from tailrace.serving.shared import Places
from tailrace.weights.load import open_checkpoint
from tailrace.weights.precision import Precision


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeConfig]:
    configs: list[ServeConfig] = []

    def run(
        config: ServeConfig,
        on_planned: Callable[[PlannedModel], None],
        on_ready: Callable[[Places, float], None],
        on_loaded: Callable[[PlannedModel], None],
        progress: Progress,
    ) -> None:
        configs.append(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            on_ready(Places(listener), 2.7)

    monkeypatch.setattr("tailrace.serving.run.serve", run)
    monkeypatch.setattr(serve, "fetch_default_model", lambda _model: None)
    return configs


def test_without_arguments_every_setting_is_its_default(
    served: list[ServeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve"]) == 0

    assert served == [ServeConfig()]
    classes, scale, place = capsys.readouterr().err.splitlines()
    assert classes.startswith("Classes: gold 2.7 s and 135 ms, silver (default) ")
    assert "2.7 times" in scale
    assert re.fullmatch(r"Serving at http://127\.0\.0\.1:\d+/v1 \(Ctrl-C stops\)", place)


def test_every_argument_reaches_its_setting(served: list[ServeConfig]) -> None:
    arguments = (
        "serve ./m.gguf --host 0.0.0.0 --port 8123 --shm here --name mine --max-model-tokens 2048 --max-running 8 "
        "--budget-tokens 256 --chunk-tokens 32 --max-queued 99 --max-tenant-requests 7 --drain-timeout 2.5 "
        "--keep-alive 5 --stall-timeout 7 --kv-memory 1.5GiB --kv-cache-dtype f32 --block-tokens 32 --threads 2 "
        "--backend reference --quantize int8,kv=f32 --warm w.jsonl --warm-state s.jsonl --warm-tokens 0 "
        "--kv-host 512MiB --kv-host-directory shared --kv-disk blocks --kv-disk-size 2GiB "
        "--kv-redis redis://cache:6379/1 --kv-ttl 60 "
        "--kv-events tcp://127.0.0.1:5557 --kv-events-topic kv@pod@mine --api-keys keys.jsonl "
        "--max-answer-tokens 4096 --cors-origin https://a.example --cors-origin https://b.example"
    )

    assert main(arguments.split()) == 0

    engine = EngineConfig(
        backend="reference",
        num_threads=2,
        block_tokens=32,
        kv_memory_bytes=3 << 29,
        kv_cache_dtype="f32",
        budget_tokens=256,
        chunk_tokens=32,
        max_running=8,
        max_queued=99,
        max_tenant_requests=7,
        max_model_tokens=2048,
    )
    warm = WarmConfig(Path("w.jsonl"), Path("s.jsonl"), 0)
    levels = LevelsConfig(1 << 29, Path("blocks"), 2 << 30, "redis://cache:6379/1", 60.0, Path("shared"))
    events = KvEventsConfig("tcp://127.0.0.1:5557", "kv@pod@mine")
    source = ModelSource("./m.gguf", Precision.parse("int8,kv=f32"))
    keys = Path("keys.jsonl")
    assert served == [
        ServeConfig(
            source,
            engine,
            "mine",
            "0.0.0.0",
            8123,
            api_keys=keys,
            warm=warm,
            levels=levels,
            kv_events=events,
            keep_alive_s=5.0,
            stall_s=7.0,
            shm="here",
            drain_s=2.5,
            max_answer_tokens=4096,
            cors_origins=("https://a.example", "https://b.example"),
        )
    ]


def test_a_log_of_json_has_what_is_announced_too(served: list[ServeConfig], monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[str] = []
    monkeypatch.setattr(serve, "write_json_log", lambda process_name: notices.append(f"begun by the {process_name()}"))
    monkeypatch.setattr(serve, "log_notice", notices.append)
    assert main(["serve", "--log-format", "json"]) == 0
    assert served == [ServeConfig()]
    assert notices[0] == "begun by the supervisor"
    assert notices[-1].startswith("Serving at http://127.0.0.1:")


def test_traces_go_where_it_is_said_as_many_as_the_variables_say(
    served: list[ServeConfig], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    assert main(["serve", "--otlp", "http://collector:4318"]) == 0
    assert served[0].otlp == OtlpConfig("http://collector:4318", TraceSampler(0.25))
    with monkeypatch.context() as patch:
        patch.setenv("OTEL_SDK_DISABLED", "true")
        assert main(["serve", "--otlp", "http://collector:4318"]) == 0
    assert served.pop().otlp is None
    assert main(["serve", "--otlp", "collector"]) == 1
    assert "--otlp 'collector' is no address of a collector" in capsys.readouterr().err
    assert len(served) == 1


def test_profiles_go_where_it_is_said(served: list[ServeConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--pyroscope", "http://profiles:4040"]) == 0
    assert served[0].pyroscope == "http://profiles:4040"
    assert main(["serve", "--pyroscope", "profiles"]) == 1
    assert "--pyroscope takes an address" in capsys.readouterr().err
    assert len(served) == 1


def test_keys_and_values_are_kept_as_the_map_says(served: list[ServeConfig]) -> None:
    assert main(["serve", "--quantize", "int4,attention=float,kv=int8", "--lazy-experts", "2GiB"]) == 0
    assert served[0].engine.lazy_experts == 2 << 30
    assert served[0].engine.kv_cache_dtype == "int8"
    assert served[0].source.quantize == Precision.parse("int4,attention=float,kv=int8")


def test_two_widths_for_keys_and_values_are_refused(
    served: list[ServeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--quantize", "kv=int8", "--kv-cache-dtype", "bf16"]) == 1
    assert re.search("kv=int8 .*bf16 differ", capsys.readouterr().err)
    assert not served


def test_words_that_mean_nothing_are_answered_with_those_that_do(
    served: list[ServeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--quantize", "int4,heads=int8"]) == 2
    said = capsys.readouterr().err
    assert "'heads=int8' is no CLASS=WIDTH" in said
    assert "attention, dense, experts, shared, index, head, embed, routers, norms" in said
    assert not served


def test_a_server_on_the_network_has_keys_or_is_meant_to_have_none(
    served: list[ServeConfig], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TAILRACE_API_KEY", raising=False)
    assert main(["serve", "--host", "0.0.0.0"]) == 1
    assert "--insecure" in capsys.readouterr().err
    assert not served

    assert main(["serve", "--host", "0.0.0.0", "--insecure"]) == 0
    assert main(["serve", "--host", "0.0.0.0", "--api-keys", "keys.jsonl"]) == 0
    monkeypatch.setenv("TAILRACE_API_KEY", "0123456789abcdef")
    assert main(["serve", "--host", "0.0.0.0"]) == 0
    assert main(["serve", "--host", "0.0.0.0", "--api-keys", "keys.jsonl"]) == 0
    assert [config.api_key for config in served] == [None, None, "0123456789abcdef", None]
    assert "0123456789abcdef" not in repr(served)


def test_classes_of_a_file_take_the_place_of_the_standard_ones(
    served: list[ServeConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "classes.jsonl"
    path.write_text(
        '{"name": "only", "priority": 1, "ttft_ms": 500, "itl_ms": 20, "queue_ttl_s": 5, "default": true}\n'
    )
    assert main(["serve", "--classes", str(path)]) == 0
    (config,) = served
    assert [each.name for each in config.engine.classes] == ["only"]
    assert "only (default) 1.35 s and 54 ms" in capsys.readouterr().err

    path.write_text("nonsense\n")
    assert main(["serve", "--classes", str(path)]) == 1
    assert f"{path}, line 1: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "variable", "url"),
    [
        ("", "redis://:secret@cache", "redis://:secret@cache"),
        ("--kv-redis redis://other", "redis://:secret@cache", "redis://other"),
        ("", "", None),
    ],
)
def test_the_url_of_redis_may_be_kept_out_of_the_arguments(
    served: list[ServeConfig], monkeypatch: pytest.MonkeyPatch, arguments: str, variable: str, url: str | None
) -> None:
    monkeypatch.setenv("TAILRACE_KV_REDIS", variable)
    assert main(["serve", *arguments.split()]) == 0
    assert served[0].levels.redis_url == url


def test_a_topic_without_events_is_refused(served: list[ServeConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--kv-events-topic", "kv@pod@mine"]) == 1
    assert "--kv-events-topic is of --kv-events" in capsys.readouterr().err
    assert not served


def test_events_have_a_topic_of_their_own(served: list[ServeConfig]) -> None:
    assert main(["serve", "--kv-events", "tcp://127.0.0.1:5557"]) == 0
    assert served[0].kv_events == KvEventsConfig("tcp://127.0.0.1:5557", "kv-events")


@pytest.mark.parametrize(("size", "host_bytes"), [("auto", "auto"), ("0", 0), ("64MiB", 64 << 20)])
def test_shared_memory_has_a_size_or_none_or_chooses_it(
    served: list[ServeConfig], size: str, host_bytes: int | str
) -> None:
    assert main(["serve", "--kv-host", size]) == 0
    assert served[0].levels.host_bytes == host_bytes


def test_an_empty_name_is_no_directory(served: list[ServeConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--kv-disk", ""]) != 0
    assert main(["serve", "--kv-host-directory", ""]) != 0
    assert served == []
    assert capsys.readouterr().err.count("an empty name is no directory") == 2


def test_a_size_of_no_disk_is_refused(served: list[ServeConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--kv-disk-size", "1GiB"]) == 1
    assert served == []
    assert "give a directory with --kv-disk" in capsys.readouterr().err


def test_a_list_of_prompts_with_a_bad_line_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "warm.jsonl"
    file.write_text('{"prompt": "good"}\n{"prompt": 1}\n')
    assert main(["serve", "no-such-model.gguf", "--warm", str(file)]) == 1
    assert (
        capsys.readouterr().err
        == f"tailrace: {file}, line 2: Expected `str | array | null`, got `int` - at `$.prompt`\n"
    )


@pytest.mark.parametrize("place", ["missing/state.jsonl", "list.jsonl/state.jsonl"])
def test_a_state_that_cannot_be_written_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    (tmp_path / "list.jsonl").touch()
    state = tmp_path / place
    assert main(["serve", "no-such-model.gguf", "--warm-state", str(state)]) == 1
    assert capsys.readouterr().err.startswith(f"tailrace: cannot write {state}: No")


def test_the_list_of_an_operator_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = tmp_path / "list.jsonl"
    listed.write_text('{"prompt": "good"}\n')
    same = tmp_path / "other" / ".." / "list.jsonl"
    assert main(["serve", "no-such-model.gguf", "--warm", str(listed), "--warm-state", str(same)]) == 1
    assert "name the same file" in capsys.readouterr().err


def test_a_server_that_cannot_start_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_config: ServeConfig, **_hooks: object) -> None:
        raise SetupError("port 8000 is taken: give another with --port")

    monkeypatch.setattr("tailrace.serving.run.serve", fail)

    assert main(["serve", "./m.gguf"]) == 1
    assert capsys.readouterr().err == "tailrace: port 8000 is taken: give another with --port\n"


def test_kv_memory_that_bounds_requests_is_said_before_the_model_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(config: ServeConfig, on_planned: Callable[[PlannedModel], None], **_others: object) -> None:
        on_planned(plan_model(open_checkpoint(config.source.model), config.engine))

    monkeypatch.setattr("tailrace.serving.run.serve", run)

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


def test_keys_that_cannot_be_used_are_said_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text('{"name": "shop", "key": "sk-0123456789abcdef", "class": "tin"}\n')
    assert main(["serve", "./no-such-model.gguf", "--api-keys", str(path)]) == 1
    error = capsys.readouterr().err
    assert f"{path}, line 1: class must be one of gold, silver, bronze, not 'tin'" in error
    assert "0123456789" not in error


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "86401"])
def test_a_drain_without_an_end_is_misuse(seconds: str, served: list[ServeConfig]) -> None:
    assert main(["serve", "--drain-timeout", seconds]) == 2
    assert not served


def test_rules_are_the_standard_ones_those_of_a_file_or_none(
    served: list[ServeConfig], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_text('{"name": "mine", "signal": "hit_rate", "of": "redis", "below": 0.5, "for_s": 9}\n')
    for arguments in ([], ["--rules", "none"], ["--rules", str(path), "--kv-redis", "redis://cache"]):
        assert main(["serve", *arguments]) == 0
    names = [[rule.name for rule in config.settled_rules] for config in served]
    assert names == [["host-bypass", "host-asynchronous", "shed-bronze"], [], ["mine"]]

    capsys.readouterr()
    assert main(["serve", "--rules", str(path)]) == 1
    assert "line 1: signal hit_rate needs a level in 'of': host; not 'redis'" in capsys.readouterr().err
