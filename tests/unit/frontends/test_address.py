import errno
import socket

import pytest

from tailrace.errors import SetupError
from tailrace.frontends.address import resolve
from tailrace.frontends.grpc.address import reserved
from tailrace.frontends.http.listener import bind


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EADDRINUSE, "taken by another program; stop it, or choose another port with --grpc-port"),
        (errno.EACCES, "choose one above 1023 with --grpc-port"),
        (errno.EADDRNOTAVAIL, "choose one with --host"),
        (errno.ENOBUFS, "check --host and --grpc-port"),
    ],
)
def test_what_to_do_names_the_option(number: int, words: str) -> None:
    address = resolve("127.0.0.1", 80, "--grpc-port")
    assert words in str(address.refusal(OSError(number, "no")))


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused_by_all(port: int) -> None:
    with pytest.raises(SetupError, match=r"does not exist; .*--port"):
        bind("127.0.0.1", port)
    with pytest.raises(SetupError, match=r"does not exist; .*--grpc-port"), reserved("127.0.0.1", port):
        raise AssertionError("there is such a port")


def test_a_port_that_http_has_is_taken_for_grpc() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SetupError, match=rf"port {port} .* taken .*--grpc-port"), reserved("127.0.0.1", port):
            raise AssertionError("there are two")


def test_an_address_makes_sockets_of_its_family() -> None:
    with resolve("127.0.0.1", 0, "--port").socket() as made:
        assert made.family is socket.AF_INET
