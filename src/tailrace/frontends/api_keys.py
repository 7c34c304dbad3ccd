"""The keys of those who may use the server, and who they are."""

import hashlib
import secrets
from collections.abc import Mapping

from tailrace.errors import RequestError
from tailrace.frontends.standing import ANYBODY, Client

__all__ = ["ApiKeys", "Unauthorized"]


class Unauthorized(RequestError):
    status = 401
    code = "invalid_api_key"


class ApiKeys:
    """Keeps digests alone, under a secret of this process: how long a look-up takes tells nothing about a key."""

    def __init__(self, clients: Mapping[str, Client]) -> None:
        """`clients` by their keys; without any, everybody may come."""
        self._secret = secrets.token_bytes(32)
        self._clients: Mapping[bytes, Client] = {}
        self.replace(clients)

    def replace(self, clients: Mapping[str, Client]) -> None:
        """From now on these have keys and no others; from any thread. Requests that are here stay."""
        self._clients = {self._digest(key.encode()): client for key, client in clients.items()}

    def admit(self, key: bytes | None, place: str) -> Client:
        """Who comes with this key. Raises Unauthorized for who has none, and tells them the `place` to send it in."""
        client = self.client_of(key)
        if client is None:
            raise Unauthorized(f"this server needs an API key that it knows: send {place}")
        return client

    def client_of(self, key: bytes | None) -> Client | None:
        """Whose key this is; None: nobody's."""
        if not self._clients:
            return ANYBODY
        return None if key is None else self._clients.get(self._digest(key))

    def _digest(self, key: bytes) -> bytes:
        return hashlib.blake2b(key, digest_size=32, key=self._secret).digest()
