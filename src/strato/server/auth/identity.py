"""Authentication: bearer tokens, then client certificates, otherwise anonymous."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from strato.api.wire import User
from strato.errors import Unauthorized
from strato.server.auth.ca import CertificateAuthority
from strato.server.auth.tokens import Tokens

AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_MAX_PEERS = 1024


class Authenticator:
    """Finds out who asks; an `http.Authenticate`."""

    def __init__(self, tokens: Tokens, ca: CertificateAuthority | None = None) -> None:
        self._tokens = tokens
        self._ca = ca
        self._peers: dict[bytes, User | None] = {}

    def __call__(self, headers: Mapping[str, str], scope: MutableMapping[str, Any]) -> User:
        """Return the user.

        Raises:
            Unauthorized: A token nobody has, or another scheme.
        """
        credentials = headers.get("authorization")
        if credentials:
            scheme, _, token = credentials.partition(" ")
            user = self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None
            if user is None:
                raise Unauthorized("Unauthorized")
            return user
        peer = scope.get("strato.peer_certificate")
        if peer is not None and self._ca is not None:
            user = self._of_peer(peer, self._ca)
            if user is not None:
                return user
        return ANONYMOUS

    def _of_peer(self, peer: bytes, ca: CertificateAuthority) -> User | None:
        if peer not in self._peers:
            if len(self._peers) >= _MAX_PEERS:
                self._peers.clear()
            self._peers[peer] = ca.user_of(peer)
        return self._peers[peer]
