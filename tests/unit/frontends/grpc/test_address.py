import socket

import pytest

from tailrace.errors import SetupError
from tailrace.frontends.grpc.address import reserved


def test_without_a_port_there_is_no_address() -> None:
    with reserved("127.0.0.1", None) as address:
        assert address is None


def test_a_port_is_kept_for_servers_of_this_user_and_nobody_else() -> None:
    with reserved("127.0.0.1", 0) as address:
        assert address is not None
        host, port = address.split(":")
        assert host == "127.0.0.1"
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind((host, int(port)))
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((host, int(port)))
            server.listen()
            with socket.create_connection((host, int(port)), timeout=5):
                server.accept()[0].close()


def test_a_port_that_another_server_has_is_refused() -> None:
    with reserved("127.0.0.1", 0) as address:
        assert address is not None
        port = int(address.split(":")[1])
        with pytest.raises(SetupError, match="choose another port with --grpc-port"), reserved("127.0.0.1", port):
            pass


def test_a_host_that_is_none_is_refused() -> None:
    with pytest.raises(SetupError, match="cannot resolve"), reserved("no.such.host.invalid", 0):
        pass
