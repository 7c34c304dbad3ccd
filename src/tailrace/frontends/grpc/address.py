"""The port of the gRPC front end, kept free for it until the processes that serve it are there. Imports no grpc."""

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tailrace.errors import SetupError
from tailrace.frontends.address import Address, resolve

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
    address = resolve(host, port, "--grpc-port")
    with address.socket() as keeper:
        try:
            _check_nobody_listens(address)
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            keeper.bind(address.place)
        except OSError as error:
            raise address.refusal(error) from None
        bound, number = keeper.getsockname()[:2]
        yield f"[{bound}]:{number}" if address.family == socket.AF_INET6 else f"{bound}:{number}"


def _check_nobody_listens(address: Address) -> None:
    """With SO_REUSEPORT, two servers of a user would share a port unknowingly."""
    with address.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address.place)
