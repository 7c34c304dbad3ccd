"""`tailrace serve`, which keeps what its engine says of each step and writes it to a file when it ends.

    python -m benchmarks.engine.recording_server FILE SERVE-ARGUMENTS...

Run by benchmarks.engine; the records are those that the metrics are made of.
"""

import sys
import time
from pathlib import Path
from unittest.mock import patch

import msgspec

from benchmarks.engine.server_steps import ServedStep
from tailrace import cli
from tailrace.records import Record, StepRecord
from tailrace.telemetry.prometheus import Metrics


def main() -> int:
    path, *arguments = sys.argv[1:]
    steps: list[ServedStep] = []
    count = Metrics.record

    def record(metrics: Metrics, what: Record) -> None:
        if isinstance(what, StepRecord):
            steps.append(ServedStep(what, time.process_time()))
        count(metrics, what)

    # The server makes its own sink, and nobody but this needs a seam there.
    with patch.object(Metrics, "record", record):
        code = cli.main(["serve", *arguments])
    Path(path).write_bytes(msgspec.json.encode(steps))
    return code


if __name__ == "__main__":
    sys.exit(main())
