"""One fresh process: what `tailrace complete` does up to its first token, part by part. Prints them as JSON.

Run by benchmarks.starting with the source tree that is measured on PYTHONPATH; imports nothing else of benchmarks, so
that an older tree can be measured beside this one.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from importlib import import_module


def measured() -> Iterator[tuple[str, float, float]]:
    """Name, seconds and CPU seconds of each part, in order."""
    last_s, last_cpu_s = time.perf_counter(), 0.0
    for name in parts():
        now_s, cpu_s = time.perf_counter(), time.process_time()
        yield name, now_s - last_s, cpu_s - last_cpu_s
        last_s, last_cpu_s = now_s, cpu_s


def parts() -> Iterator[str]:
    """Does one part after the other, and names the one that was done."""
    yield "interpreter"
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("tailrace.cli", "cyclopts", "tailrace.verbs"):
        import_module(name)
    yield "import: command line"
    import_module("tailrace.commands.complete")
    yield "import: the verb"
    import_module("numpy")
    yield "import: numpy"
    import_module("tailrace.library")
    yield "import: library"
    yield from _loading()


def _loading() -> Iterator[str]:
    from tailrace.config import EngineConfig  # noqa: PLC0415  (the order of imports is what is measured)
    from tailrace.loading import plan_model  # noqa: PLC0415  (as above)
    from tailrace.service.tokenizer import Tokenizer  # noqa: PLC0415  (as above)
    from tailrace.weights.load import open_checkpoint  # noqa: PLC0415  (as above)

    checkpoint = open_checkpoint(None)
    yield "open, fingerprint"
    plan = plan_model(checkpoint, EngineConfig())
    yield "plan"
    packed = plan.pack()
    yield "pack"
    loaded = packed.start()
    yield "threads, KV pool"
    loaded.calibrate()
    yield "calibrate"
    Tokenizer.from_source(checkpoint.tokenizer)
    yield "tokenizer"
    chat = import_module("tailrace.service.chat")
    chat.ChatTemplate(checkpoint.chat_template, checkpoint.special_tokens)
    yield "chat template"


if __name__ == "__main__":
    json.dump(list(measured()), sys.stdout)
