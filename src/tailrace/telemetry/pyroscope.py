"""Tells a Pyroscope server all the time what this process does, by a thread that looks at the others a hundred times a
second. Functions of Python alone: it looks while they run, and holds nobody up."""

from importlib.util import find_spec

from tailrace.errors import SetupError
from tailrace.http_url import split_http_url

__all__ = ["check_pyroscope", "push_profiles"]

UPLOAD_INTERVAL_S = 10
_SAMPLES_PER_S = 100


def check_pyroscope(url: str) -> None:
    """Raises SetupError when profiles could not be pushed there from here."""
    if split_http_url(url) is None:
        raise SetupError(f"--pyroscope takes an address such as http://127.0.0.1:4040, not {url[:200]!r}")
    if find_spec("pyroscope") is None:
        raise SetupError("--pyroscope needs its client: pip install 'tailrace[pyroscope]'")


def push_profiles(url: str, *, model: str, process: str) -> None:
    """From now on, while this process lives. After the fork: it starts a thread. Nobody waits for the server."""
    import pyroscope  # noqa: PLC0415  (an extra, loaded where it is asked for)

    pyroscope.configure(
        application_name="tailrace",
        server_address=url,
        sample_rate=_SAMPLES_PER_S,
        gil_only=False,  # the engine computes without the lock
        tags={"model": model, "process": process},
        upload_interval=UPLOAD_INTERVAL_S,
    )
