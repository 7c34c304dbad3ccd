"""The socket of the HTTP front end, bound before anything slow begins: so it knows nothing of who will serve on it."""

import socket

from tailrace.frontends.address import resolve

__all__ = ["BACKLOG", "MAX_UNSENT_BYTES", "bind"]

BACKLOG = 2048
MAX_UNSENT_BYTES = 16 * 1024  # of a connection, here and in the system each; then writers wait


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Connections wait until `serve` runs.

    Raises SetupError with what to do when the address cannot be had.
    """
    address = resolve(host, port, "--port")
    listener = address.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it: the system, too, keeps little for a client that reads slowly, instead of megabytes.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
        listener.bind(address.place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise address.refusal(error) from None
    return listener
