"""What is an address of the web, and what is none; nothing raises."""

import pytest

from tailrace.http_url import split_http_url


@pytest.mark.parametrize("url", ["http://localhost:4318", "https://otel.example.com/v1", "http://[::1]:9", "http://h"])
def test_an_address_is_taken_apart(url: str) -> None:
    parts = split_http_url(url)
    assert parts is not None
    assert parts.geturl() == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:80",
        "grpc://h",
        "http://",
        "http:///v1",
        "http://[::1",
        "http://h:99999",
        "http://h:0",
        "http://h:x",
    ],
)
def test_what_is_none_is_none(url: str) -> None:
    assert split_http_url(url) is None
