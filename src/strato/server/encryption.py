"""Encryption at rest: the journal and its backups hold bodies of chosen resources as AES-256-GCM ciphertext.

The keys are in a file outside the cluster's home. The first key encrypts, all of them decrypt. To replace a key, put a
new one before it: the next start encrypts again what other keys have encrypted.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, UsageError, one_line

_PREFIX = b"strato:enc:aesgcm:v1:"
_NONCE_BYTES, _KEY_BYTES = 12, 32
_DEFAULT_RESOURCES = ("secrets",)


class WrongKey(UsageError):
    """A stored body cannot be decrypted with the given keys."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key, and its name, which is stored with each ciphertext."""

    id: str
    secret: bytes


class Encryption:
    """Encrypts and decrypts stored bodies.

    Args:
        keys: All of them decrypt; the first one encrypts.
        resources: Resources to encrypt: ``secrets``, ``jobs.batch.volcano.sh``.
        writes_plain: Write all bodies as plain text; the next start decrypts those that are encrypted.
        source: The key file's name, for messages.
    """

    def __init__(
        self,
        keys: Sequence[Key],
        resources: Sequence[str] = _DEFAULT_RESOURCES,
        *,
        writes_plain: bool = False,
        source: str = "",
    ) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # imported late: most clusters have no keys

        self.resources = frozenset(() if writes_plain else resources)
        self.key_ids: tuple[str, ...] = () if writes_plain else (keys[0].id,)
        """The name of the key that encrypts; none with ``writes_plain``."""
        self._source = source
        self._ciphers = {key.id: AESGCM(key.secret) for key in keys}
        self._prefix = b"" if writes_plain else _PREFIX + keys[0].id.encode() + b":"

    def seal(self, resource: str, key: str, revision: int, body: bytes) -> bytes:
        """Return the bytes to store for a body of one of the ``resources``."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self.key_ids[0]].encrypt(nonce, body, _bound_to(resource, key, revision))
        return self._prefix + nonce + sealed

    def unseal(self, resource: str, key: str, revision: int, stored: bytes) -> bytes:
        """Return the body that stored bytes hold, encrypted or not.

        Raises:
            WrongKey: They are encrypted with a key that we do not have.
        """
        from cryptography.exceptions import InvalidTag

        key_id = key_id_of(stored)
        if key_id is None:
            return stored
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise WrongKey(
                f"{resource} {key} is encrypted with key {key_id!r}, which {self._source} does not have; "
                f"add that key, after the first one if that shall replace it"
            )
        start = len(_PREFIX) + len(key_id.encode()) + 1
        nonce, sealed = stored[start : start + _NONCE_BYTES], stored[start + _NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, sealed, _bound_to(resource, key, revision))
        except InvalidTag:
            raise WrongKey(
                f"{resource} {key} cannot be decrypted with key {key_id!r} of {self._source}: "
                "it is another key of that name, or the object was put there from elsewhere"
            ) from None

    def is_current(self, resource: str, stored: bytes) -> bool:
        """Tell whether stored bytes are as `seal` would make them now (same key, or plain)."""
        if resource in self.resources:
            return stored.startswith(self._prefix)
        return not stored.startswith(_PREFIX)


def key_id_of(stored: bytes) -> str | None:
    """Return the name of the key that stored bytes are encrypted with; None if they are plain."""
    if not stored.startswith(_PREFIX):
        return None
    return stored[len(_PREFIX) : stored.index(b":", len(_PREFIX))].decode(errors="replace")


def require_plain(resource: str, key: str, stored: bytes) -> bytes:
    """Return a stored body, which must be plain because there are no keys.

    Raises:
        WrongKey: It is encrypted.
    """
    key_id = key_id_of(stored)
    if key_id is not None:
        raise WrongKey(f"{resource} {key} is encrypted with key {key_id!r}; start with --encryption-key-file FILE")
    return stored


def _bound_to(resource: str, key: str, revision: int) -> bytes:
    """Return the associated data, which makes a ciphertext that is moved to another key or revision undecryptable."""
    return f"{resource}\0{key}\0{revision}".encode()


def load_encryption(path: Path) -> Encryption:
    """Read a key file: lines ``NAME: BASE64`` of 32 bytes each, or Kubernetes' ``EncryptionConfiguration``.

    Raises:
        UsageError: It cannot be read, other users may read it, or its content is wrong; every problem is listed.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"{path} can be read by others; make it yours alone: chmod 600 {path}")
        content: Any = yamltext.load(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (yamltext.InvalidYaml, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no key file: {one_line(error)}") from error
    problems: list[Problem] = []
    if not isinstance(content, dict) or not content:
        raise InvalidInput(
            str(path), [Problem("", "write lines 'NAME: KEY', KEY from: head -c 32 /dev/urandom | base64")]
        )
    if content.get("kind") == "EncryptionConfiguration":
        return _from_configuration(path, content, problems)
    keys = [_key(str(name), secret, str(name), problems) for name, secret in content.items()]
    if problems:
        raise InvalidInput(str(path), problems)
    return Encryption([key for key in keys if key is not None], source=str(path))


def _key(name: str, secret: object, where: str, problems: list[Problem]) -> Key | None:
    if not name or ":" in name:
        problems.append(Problem(where, f"{name!r} is no name of a key: it is empty or holds a colon"))
        return None
    try:
        decoded = base64.b64decode(str(secret), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) != _KEY_BYTES:
        problems.append(Problem(where, "the key must be 32 bytes in base64, from: head -c 32 /dev/urandom | base64"))
        return None
    return Key(name, decoded)


def _from_configuration(path: Path, content: Mapping[str, Any], problems: list[Problem]) -> Encryption:
    """Read an ``EncryptionConfiguration`` with one entry, whose providers are aesgcm and identity."""
    entries = content.get("resources")
    entry = entries[0] if isinstance(entries, list) and len(entries) == 1 else None
    if not isinstance(entry, dict):
        raise InvalidInput(str(path), [Problem("resources", "must be a list of one entry")])
    names = entry.get("resources")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and "*" not in name for name in names):
        problems.append(
            Problem("resources[0].resources", "must list names such as secrets or configmaps, no wildcards")
        )
    keys: list[Key] = []
    providers = entry.get("providers")
    kinds: list[str] = []
    for number, provider in enumerate(providers if isinstance(providers, list) else ()):
        where = f"resources[0].providers[{number}]"
        kind = next(iter(provider)) if isinstance(provider, dict) and len(provider) == 1 else ""
        kinds.append(kind)
        if kind not in ("aesgcm", "identity"):
            problems.append(
                Problem(where, f"{kind or provider!r} is not served here; use aesgcm, and identity for plain")
            )
        elif kind == "aesgcm":
            listed = provider[kind].get("keys") if isinstance(provider[kind], dict) else None
            for index, one in enumerate(listed if isinstance(listed, list) else ()):
                place = f"{where}.aesgcm.keys[{index}]"
                one = one if isinstance(one, dict) else {}
                key = _key(str(one.get("name", "")), one.get("secret", ""), place, problems)
                keys += [key] if key is not None else []
    if not keys and not problems:
        problems.append(Problem("resources[0].providers", "name at least one key of provider aesgcm"))
    if problems:
        raise InvalidInput(str(path), problems)
    return Encryption(keys, names or (), writes_plain=kinds[0] == "identity", source=str(path))
