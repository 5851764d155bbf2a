"""Static bearer tokens, one for each identity, stored in the data directory and reused across restarts."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import msgspec

from strato.api.wire import User
from strato.decoding import UNDECODABLE
from strato.errors import UsageError
from strato.server.auth.files import write_secret

_BYTES = 32


class Tokens:
    """Tokens by identity.

    Args:
        path: Their file (mode 0600); None keeps them in memory only.

    Raises:
        UsageError: The file exists and is not one of ours.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._by_name: dict[str, str] = {}
        self._users: dict[bytes, User] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        if path is not None and path.exists():
            try:
                self._by_name = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
            except UNDECODABLE as error:
                raise UsageError(f"{path}: no token file ({error}); remove it to have new tokens made") from error

    def ensure(self, identities: Iterable[User]) -> None:
        """Create missing tokens of identities; new ones are in the file when this returns."""
        changed = False
        for user in identities:
            if user.name not in self._by_name:
                self._by_name[user.name] = secrets.token_urlsafe(_BYTES)
                changed = True
            self._users[_digest(self._by_name[user.name])] = user
        if changed and self._path is not None:
            write_secret(self._path, msgspec.json.format(msgspec.json.encode(self._by_name)))

    def token(self, name: str) -> str:
        """Return an identity's token, which `ensure` has created.

        Raises:
            KeyError: There is no such identity.
        """
        return self._by_name[name]

    def find(self, token: str) -> User | None:
        """Return the user of a token. The look-up is by digest, so that its timing reveals nothing about the token."""
        digest = _digest(token)
        user = self._users.get(digest)
        if user is not None and hmac.compare_digest(self._by_name[user.name].encode(), token.encode()):
            return user
        return None


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
