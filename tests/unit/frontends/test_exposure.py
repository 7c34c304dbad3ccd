import pytest

from tailrace.errors import SetupError
from tailrace.frontends.exposure import check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "127.1", "localhost", "::1", "no-such-host.invalid"])
def test_who_is_on_the_machine_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, has_keys=False, is_insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "192.0.2.7", "2001:db8::1", "fe80::1%lo"])
def test_others_are_let_in_with_keys_or_if_that_is_meant(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SetupError, match=r"--api-keys .*TAILRACE_API_KEY.* 127\.0\.0\.1.*--insecure"):
        check_exposure(host, has_keys=False, is_insecure=False)
    check_exposure(host, has_keys=True, is_insecure=False)
    check_exposure(host, has_keys=False, is_insecure=True)
