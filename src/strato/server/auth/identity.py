"""Authentication: bearer tokens, then client certificates, otherwise anonymous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strato.api.wire import User
from strato.errors import NotFound, Unauthorized
from strato.server.auth.accounts import AccountTokens, LookUp
from strato.server.auth.ca import CertificateAuthority
from strato.server.auth.tokens import Tokens

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_MAX_PEERS = 1024


class Authenticator:
    """Finds out who asks; an `http.Authenticate`, and the `rest.tokens.Tokens` of the server's core.

    Args:
        tokens: The static tokens of people and components.
        ca: Whose client certificates count; None takes none.
        accounts: The tokens of service accounts; None has none.
    """

    def __init__(
        self, tokens: Tokens, ca: CertificateAuthority | None = None, accounts: AccountTokens | None = None
    ) -> None:
        self._tokens = tokens
        self._ca = ca
        self._accounts = accounts
        self._peers: dict[bytes, User | None] = {}

    def __call__(self, headers: Mapping[str, str], peer: bytes | None = None) -> User:
        """Return the user.

        Args:
            headers: Names in lower case.
            peer: The client's certificate, DER, verified by TLS.

        Raises:
            Unauthorized: A token nobody has, or another scheme.
        """
        credentials = headers.get("authorization")
        if credentials:
            scheme, _, token = credentials.partition(" ")
            user = self.identify(token.strip()) if scheme.lower() == "bearer" else None
            if user is None:
                raise Unauthorized("Unauthorized")
            return user
        if peer is not None and self._ca is not None:
            user = self._of_peer(peer, self._ca)
            if user is not None:
                return user
        return ANONYMOUS

    def identify(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return whose token this is; None when it is nobody's, has ended, or is meant for others."""
        user = self._tokens.find(token)
        if user is None and self._accounts is not None:
            user = self._accounts.find(token, audiences)
        return user

    def issue(
        self,
        account: Mapping[str, Any],
        *,
        audiences: Sequence[str],
        seconds: int,
        bound: Mapping[str, Any] | None,
        token_id: str,
    ) -> str:
        """Return a new token of a service account.

        Raises:
            NotFound: There are none here.
        """
        if self._accounts is None:
            raise NotFound("the server could not find the requested resource")
        return self._accounts.issue(account, audiences=audiences, seconds=seconds, bound=bound, token_id=token_id)

    def use_objects(self, look_up: LookUp) -> None:
        """Check from now on that service accounts are still there."""
        if self._accounts is not None:
            self._accounts.use_objects(look_up)

    def _of_peer(self, peer: bytes, ca: CertificateAuthority) -> User | None:
        if peer not in self._peers:
            if len(self._peers) >= _MAX_PEERS:
                self._peers.clear()
            self._peers[peer] = ca.user_of(peer)
        return self._peers[peer]
