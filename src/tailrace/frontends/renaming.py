"""The service's complaints in the words of a protocol that calls some fields otherwise."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailrace.errors import InvalidRequest

__all__ = ["renamed"]


@contextmanager
def renamed(place: Callable[[str], str]) -> Iterator[None]:
    """Within this, an InvalidRequest names the field as `place` does, which is given the service's name for it."""
    try:
        yield
    except InvalidRequest as error:
        if error.param is not None:
            error.param = place(error.param)
        raise
