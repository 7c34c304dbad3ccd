"""What the import contracts in pyproject.toml cannot see: imports in functions, and libraries nobody imports yet."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.tree import Module

STANDARD_LIBRARY_ONLY = ("types", "classes", "errors", "records", "scheduler", "kvcache", "config")

OWNERS = {
    "numpy": ("ops", "runtime", "weights", "levels", "quantizing", "guides"),
    "gguf": ("weights", "quantizing"),
    "tokenizers": ("service",),
    "jinja2": ("service",),
    "llguidance": ("guides",),
    "starlette": ("frontends",),
    "prometheus_client": (),  # what tests read expositions with
    "opentelemetry": ("telemetry.otel",),
    "cyclopts": ("cli", "verbs", "commands"),
    "rich": ("cli", "commands", "bench"),
    "torch": ("ops.cuda", "ops.triton"),
    "triton": ("ops.triton",),
    "uvicorn": ("frontends.http",),
    "h2": ("frontends.http.http2",),
    "grpc": ("frontends.grpc",),
    "google.protobuf": ("frontends.grpc",),
    "smg_grpc_proto": ("frontends.grpc.vllm",),
    "setproctitle": ("serving",),
    "redis": ("levels.redis_wire",),
    "hiredis": ("levels.redis_wire",),
    "pyroscope": ("telemetry.pyroscope",),
    "zmq": ("telemetry.kv_events",),
    "ray": ("cluster.ray_app",),
    "tailrace.ops._native": ("ops.cpu",),
    "tailrace.ring._ring": ("ring",),
}

EXECUTES_DATA = (
    "pickle",
    "_pickle",
    "marshal",
    "shelve",
    "copyreg",
    "multiprocessing",
    "dill",
    "cloudpickle",
    "joblib",
)
"""Libraries that run what they read, or that hand objects on through one that does."""


def _importers(modules: list[Module], library: str) -> set[str]:
    return {module.name for module in modules if any(f"{name}.".startswith(f"{library}.") for name in module.imports)}


@pytest.mark.parametrize("package", STANDARD_LIBRARY_ONLY)
def test_the_vocabulary_and_the_pure_column_need_the_standard_library_alone(
    modules: list[Module], package: str
) -> None:
    allowed = sys.stdlib_module_names | {"tailrace"}
    inside = [module for module in modules if module.is_inside(package)]
    assert inside
    foreign = [(module.name, name) for module in inside for name in module.imports if name.split(".")[0] not in allowed]
    assert foreign == []


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_is_known_to_its_owner_alone(modules: list[Module], library: str) -> None:
    strangers = {
        importer
        for importer in _importers(modules, library)
        if not any(f"{importer}.".startswith(f"{owner}.") for owner in OWNERS[library])
    }
    assert strangers == set()


@pytest.mark.parametrize("library", EXECUTES_DATA)
def test_nobody_reads_objects_out_of_bytes(modules: list[Module], library: str) -> None:
    """Whoever could write a file or into shared memory could run what they like."""
    assert _importers(modules, library) == set()
    named = {module.name for module in modules if library in module.strings}
    assert named == set(), "it may be imported by its name"
    assert not any("allow_pickle" in module.source for module in modules)


@pytest.mark.parametrize(
    "source", ["import pickle", "from pickle import loads", "def f():\n    import os, pickle as p", "import pickle.x"]
)
def test_an_import_is_seen_however_it_is_written(source: str) -> None:
    seen = Module("a.b", Path("b.py"), source, ast.parse(source))
    assert _importers([seen], "pickle") == {"a.b"}


def test_front_ends_see_the_seam_of_the_service_and_nothing_behind_it(modules: list[Module]) -> None:
    seen = {name for module in modules if module.is_inside("frontends") for name in module.imports}
    behind = {name for name in seen if name.startswith("tailrace.service.") and name.split(".")[2] != "api"}
    assert behind == set()


@pytest.mark.parametrize("loaded", ["scheduler.scheduler", "kvcache.cache", "models.registry", "bench.load"])
def test_loading_a_part_that_computes_nothing_loads_no_arrays(loaded: str) -> None:
    code = f"import sys, tailrace.{loaded}; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


HEAVY = (
    *(
        "gguf",
        "grpc",
        "h2",
        "huggingface_hub",
        "jinja2",
        "llguidance",
        "pip",
        "pydantic",
        "redis",
        "rich",
        "starlette",
        "torch",
    ),
    *("pyroscope", "uvicorn", "uvloop", "zmq"),
    *("tailrace.bench.exchange", "tailrace.bench.server", "tailrace.bench.stream", "tailrace.ops.reference"),
    *("tailrace.quantizing", "tailrace.weights.hf_checkpoint"),
    *("tailrace.weights.hf_config", "tailrace.weights.inspection", "tailrace.weights.synthetic"),
)
STARTING = {
    "serve": ("tailrace.commands.serve", "tailrace.ops.cpu.backend"),
    "complete": ("tailrace.commands.complete", "tailrace.library", "tailrace.ops.cpu.backend"),
}


@pytest.mark.parametrize("verb", STARTING)
def test_what_a_start_has_no_use_for_is_not_loaded(verb: str) -> None:
    """Each of these would come before the first token; who needs one loads it then, or while weights are read."""
    code = f"import sys, tailrace.verbs, {', '.join(STARTING[verb])}; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = set(shown.split())
    assert loaded.issuperset(STARTING[verb])
    assert loaded.isdisjoint(HEAVY)


def test_every_module_is_reached_from_the_command_line_or_the_library(modules: list[Module]) -> None:
    imported = {name.removeprefix("tailrace.") for module in modules for name in module.imports}
    entries = {"", "cli", "library"}
    idle = {
        module.name
        for module in modules
        if module.path.stem != "__init__"
        and module.name not in imported | entries
        and not module.is_inside("commands")  # the command line loads its verbs by name
    }
    assert idle == set()
