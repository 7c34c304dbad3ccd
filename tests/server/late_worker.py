"""`tailrace` whose second API process needs long until it has read the model's texts: `-m tests.server.late_worker`."""

import sys
import time
from typing import Any

from tailrace.cli import main
from tailrace.service.service import TextService
from tailrace.serving import api

LATE_S = 2.0

_build = api.build_service  # type: ignore[attr-defined]  # where it is called


def build_service(*arguments: Any, **options: Any) -> TextService:
    (checkpoint, engine, card, warmer, *others) = arguments
    if warmer is None:  # that has the first one alone
        time.sleep(LATE_S)
    return _build(checkpoint, engine, card, warmer, *others, **options)


if __name__ == "__main__":
    api.build_service = build_service  # type: ignore[attr-defined]  # as above
    sys.exit(main())
