"""Authentication: bearer tokens, then client certificates, otherwise anonymous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from strato.api.wire import User
from strato.errors import NotFound, Unauthorized
from strato.lru import LruCache
from strato.server.auth.accounts import AccountTokens, LookUp
from strato.server.auth.ca import CertificateAuthority, Peer
from strato.server.auth.tokens import Tokens
from strato.server.rest.rights import ANONYMOUS
from strato.server.rest.tokens import API_AUDIENCE

__all__ = ["ANONYMOUS", "Authenticator"]
_MAX_PEER_BYTES = 8 << 20


class Authenticator:
    """Authenticates requests; an `http.Authenticate`, and the `rest.tokens.Tokens` of the server's core."""

    def __init__(
        self, tokens: Tokens, ca: CertificateAuthority | None = None, accounts: AccountTokens | None = None
    ) -> None:
        self._tokens = tokens
        self._ca = ca
        self._accounts = accounts
        self._peers: LruCache[bytes, Peer] = LruCache(_MAX_PEER_BYTES, lambda certificate, _peer: 2 * len(certificate))

    def __call__(self, headers: Mapping[str, str], peer: bytes | None = None) -> User:
        """Return the user.

        Args:
            headers: Names in lower case.
            peer: The client's certificate, DER, verified by TLS.

        Raises:
            Unauthorized: An unknown token, or another scheme.
        """
        credentials = headers.get("authorization")
        if credentials:
            scheme, _, token = credentials.partition(" ")
            found = self.identify(token.strip()) if scheme.lower() == "bearer" else None
            if found is None:
                raise Unauthorized("Unauthorized")
            return found[0]
        if peer is not None and self._ca is not None:
            user = self._of_peer(peer, self._ca)
            if user is not None:
                return user
        return ANONYMOUS

    def identify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, Sequence[str]] | None:
        """Return the user of a token and those of ``audiences`` it is for; without audiences, of this API's.

        None if the token is unknown, expired, or for none of them. Static tokens of users and components are for this
        API.
        """
        user = self._tokens.find(token)
        if user is not None:
            shared = [one for one in audiences or (API_AUDIENCE,) if one == API_AUDIENCE]
            return (user, shared) if shared else None
        return self._accounts.find(token, audiences) if self._accounts is not None else None

    def issue(
        self,
        account: Mapping[str, Any],
        *,
        audiences: Sequence[str],
        seconds: int,
        bound: Sequence[Mapping[str, Any]],
        token_id: str,
    ) -> str:
        """Return a new token of a service account.

        Raises:
            NotFound: This server issues no such tokens.
        """
        if self._accounts is None:
            raise NotFound("the server could not find the requested resource")
        return self._accounts.issue(account, audiences=audiences, seconds=seconds, bound=bound, token_id=token_id)

    def use_objects(self, look_up: LookUp) -> None:
        """Use ``look_up`` from now on to check that service accounts still exist."""
        if self._accounts is not None:
            self._accounts.use_objects(look_up)

    def _of_peer(self, peer: bytes, ca: CertificateAuthority) -> User | None:
        known = self._peers.get(peer)
        if known is None:
            known = ca.identify(peer)
            self._peers.put(peer, known)
        return known.user if ca.is_now(known) else None
