"""The port of the gRPC front end, kept free for it until the processes that serve it are there. Imports no grpc."""

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.errors import SetupError

__all__ = ["reserved"]


@contextmanager
def reserved(host: str, port: int | None) -> Iterator[str | None]:
    """The address HOST:PORT of a port that others cannot take, though servers of this user may share it; None for None.

    Port 0 takes a free one. Raises SetupError when it cannot be had, or gRPC is not installed.
    """
    if port is None:
        yield None
        return
    if importlib.util.find_spec("grpc") is None or importlib.util.find_spec("grpc_reflection") is None:
        raise SetupError("--grpc-port needs grpcio: pip install 'tailrace[grpc]'")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise SetupError(f"cannot resolve {host}:{port} ({error}); check --host and --grpc-port") from None
    with socket.socket(family, kind, protocol) as keeper:
        try:
            _check_nobody_listens(family, address)
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            keeper.bind(address)
        except OSError as error:
            raise SetupError(
                f"cannot listen on {host}:{port} for gRPC ({error.strerror}): choose another port with --grpc-port"
            ) from None
        bound, number = keeper.getsockname()[:2]
        yield f"[{bound}]:{number}" if family == socket.AF_INET6 else f"{bound}:{number}"


def _check_nobody_listens(family: int, address: tuple[object, ...]) -> None:
    """With SO_REUSEPORT, two servers of a user would share a port unknowingly."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
