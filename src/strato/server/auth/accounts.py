"""Tokens of service accounts: signed, bound to the account and perhaps another object, and with an expiry.

A token is a JSON Web Token (RFC 7519) signed with ES256 (RFC 7518, section 3.4): elliptic curves, because generating an
RSA key takes up to a second. Its claims are those of Kubernetes. It is valid only while the account, and the pod or
secret that it is bound to, exist with the same uid.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import User, service_account
from strato.clock import Clock, parse_time
from strato.errors import UsageError
from strato.lru import LruCache
from strato.server.auth.files import write_secret
from strato.server.rest.tokens import API_AUDIENCE

Json = Mapping[str, Any]
LookUp = Callable[[Kind, str, str], Json | None]
"""Kind, namespace and name to the newest state of an object."""

BOUND_KINDS: dict[str, Kind] = {"Pod": catalog.POD, "Secret": catalog.SECRET, "Node": catalog.NODE}
_SHA = ec.ECDSA(hashes.SHA256())
_SIZE = 32
_MAX_VERIFIED_BYTES = 16 << 20
_MAX_TOKEN_BYTES = 16 << 10
"""Longest token that is checked; those that we issue are far shorter, whatever their audiences."""
_GONE_SECONDS = 60
"""How long after its grace period a terminating object still counts as existing, as in Kubernetes."""


class AccountTokens:
    """Issues and verifies tokens of service accounts.

    Args:
        key_path: File of the signing key (mode 0600), created if missing; None keeps the key in memory.
        clock: Gives the tokens' times.

    Raises:
        UsageError: The file exists and does not hold a key of ours.
    """

    def __init__(self, key_path: Path | None, clock: Clock) -> None:
        self._key = _load_or_make(key_path)
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self._key_id = _pack(sha256(public).digest())
        self._header = _pack(msgspec.json.encode({"alg": "ES256", "kid": self._key_id, "typ": "JWT"}))
        self._clock = clock
        self._look_up: LookUp = lambda _kind, _namespace, _name: None
        self._verified: LruCache[str, dict[str, Any]] = LruCache(
            _MAX_VERIFIED_BYTES, lambda token, _claims: 3 * len(token)
        )

    def use_objects(self, look_up: LookUp) -> None:
        """Use ``look_up`` from now on to check that accounts and bound objects still exist."""
        self._look_up = look_up

    def issue(
        self, account: Json, *, audiences: Sequence[str], seconds: int, bound: Sequence[Json], token_id: str
    ) -> str:
        """Return a new token of an account.

        Args:
            account: The ServiceAccount.
            audiences: The services that the token is for.
            seconds: How long it is valid.
            bound: The object with whose deletion it becomes invalid; of a pod, followed by its node.
            token_id: Unique id of the token.
        """
        metadata, now = account["metadata"], int(self._clock.now())
        private: dict[str, Any] = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        for one in bound:
            what = one["metadata"]
            private[one["kind"].lower()] = {"name": what["name"], "uid": what["uid"]}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": API_AUDIENCE,
            "jti": token_id,
            "kubernetes.io": private,
            "nbf": now,
            "sub": service_account(metadata["namespace"], metadata["name"]).name,
        }
        signed = f"{self._header}.{_pack(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _SHA))
        return f"{signed}.{_pack(r.to_bytes(_SIZE, 'big') + s.to_bytes(_SIZE, 'big'))}"

    def public_keys(self) -> list[dict[str, str]]:
        """Return the keys that verify tokens, as JSON Web Keys (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_pack(number.to_bytes(_SIZE, "big")) for number in (numbers.x, numbers.y))
        return [{"use": "sig", "kty": "EC", "kid": self._key_id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}]

    def find(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, Sequence[str]] | None:
        """Return the user of a token and those of ``audiences`` it is for; without audiences, of this API's.

        None if we have not issued the token, it is no longer valid, or is for other audiences.
        """
        claims = self._verified.get(token)
        if claims is None:
            claims = self._verify(token) if len(token) <= _MAX_TOKEN_BYTES else None
            if claims is None:
                return None
            self._verified.put(token, claims)
        now = self._clock.now()
        if not claims["nbf"] <= now < claims["exp"]:
            return None
        shared = [one for one in audiences or (API_AUDIENCE,) if one in claims["aud"]]
        user = self._user_of(claims["kubernetes.io"], claims["jti"], now) if shared else None
        return (user, shared) if user is not None else None

    def _user_of(self, private: Json, token_id: str, now: float) -> User | None:
        namespace, account = private["namespace"], private["serviceaccount"]
        if not self._is_there(catalog.SERVICEACCOUNT, namespace, account, now):
            return None
        extra = [("authentication.kubernetes.io/credential-id", (f"JTI={token_id}",))]
        for name, kind in BOUND_KINDS.items():
            bound = private.get(name.lower())
            if bound is None:
                continue
            if not (name == "Node" and "pod" in private):  # the token has its pod's node, but is not bound to it
                place = namespace if kind.namespaced else ""
                if not self._is_there(kind, place, bound, now):
                    return None
            if name != "Secret":
                extra.append((f"authentication.kubernetes.io/{name.lower()}-name", (bound["name"],)))
                extra.append((f"authentication.kubernetes.io/{name.lower()}-uid", (bound["uid"],)))
        return service_account(namespace, account["name"], account["uid"], tuple(sorted(extra)))

    def _is_there(self, kind: Kind, namespace: str, wanted: Json, now: float) -> bool:
        """Whether an object still exists with the same uid, and is not long past its grace period."""
        found = self._look_up(kind, namespace, wanted["name"])
        if found is None or found["metadata"]["uid"] != wanted["uid"]:
            return False
        ends = found["metadata"].get("deletionTimestamp")
        return not ends or parse_time(ends) >= now - _GONE_SECONDS

    def _verify(self, token: str) -> dict[str, Any] | None:
        signed, _, signature = token.rpartition(".")
        header, _, payload = signed.partition(".")
        if header not in (self._header, _OLD_HEADER):
            return None
        try:
            raw = _unpack(signature)
            r, s = int.from_bytes(raw[:_SIZE], "big"), int.from_bytes(raw[_SIZE:], "big")
            self._key.public_key().verify(encode_dss_signature(r, s), signed.encode(), _SHA)
            claims: dict[str, Any] = msgspec.json.decode(_unpack(payload))
        except (InvalidSignature, ValueError):
            return None
        return claims


def _load_or_make(path: Path | None) -> ec.EllipticCurvePrivateKey:
    if path is not None and path.exists():
        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: no private key ({error}); remove it to have a new one made") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UsageError(f"{path}: a key of another type; remove it to have a new one made")
        return key
    key = ec.generate_private_key(ec.SECP256R1())
    if path is not None:
        write_secret(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


_OLD_HEADER = _pack(b'{"alg":"ES256","typ":"JWT"}')
"""The header of tokens that an earlier version has issued, which has no key id."""
