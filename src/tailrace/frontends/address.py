"""Where a front end may listen: a host and a port of the operator's as an address, and what to do when it is none."""

import errno
import socket
from typing import Any, NamedTuple

from tailrace.errors import SetupError

__all__ = ["Address", "resolve"]


class Address(NamedTuple):
    """What the options `--host` and `option` name."""

    host: str
    port: int
    option: str
    family: int
    kind: int
    protocol: int
    place: tuple[Any, ...]

    def socket(self) -> socket.socket:
        """A new one, for this address, and bound to none."""
        return socket.socket(self.family, self.kind, self.protocol)

    def refusal(self, error: OSError) -> SetupError:
        """Why nothing can listen here, and what to do."""
        return SetupError(_advice(error, self))


def resolve(host: str, port: int, option: str) -> Address:
    """Raises SetupError for a port or a host that cannot be."""
    if not 0 <= port <= 65535:
        raise SetupError(
            f"port {port} does not exist; choose one from 1 to 65535 with {option}, or 0 for any that is free"
        )
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise SetupError(f"cannot resolve {host}:{port} ({error}); check --host and {option}") from None
    return Address(host, port, option, family, kind, protocol, place)


def _advice(error: OSError, address: Address) -> str:
    host, port, option = address.host, address.port, address.option
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another program; stop it, or choose another port with {option}"
    if error.errno == errno.EACCES:
        return f"port {port} needs privileges; choose one above 1023 with {option}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose one with --host (127.0.0.1 for local use)"
    return f"cannot listen on {host}:{port}: {error.strerror}; check --host and {option}"
