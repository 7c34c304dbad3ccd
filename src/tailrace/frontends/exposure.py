"""Who can reach a server, before it listens: whoever the network lets in has to have a key, unless that is waived."""

import ipaddress
import socket

from tailrace.errors import SetupError

__all__ = ["check_exposure", "is_loopback"]


def check_exposure(host: str, *, has_keys: bool, is_insecure: bool) -> None:
    """Raises SetupError where others than this machine's own users could use a server that asks nobody for a key."""
    if has_keys or is_insecure or is_loopback(host):
        return
    raise SetupError(
        f"on {host!r} anybody who reaches this machine could use the server: set keys with --api-keys FILE or the "
        "variable TAILRACE_API_KEY, listen on 127.0.0.1, or say --insecure if a proxy or firewall keeps others out"
    )


def is_loopback(host: str) -> bool:
    """Whether every address of this name is one of this machine alone. A name that is not known is: none can listen."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return True
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
