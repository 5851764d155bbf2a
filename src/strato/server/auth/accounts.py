"""Tokens of service accounts: signed, bound to the account and to what they were made for, and ending by themselves.

A token is a JSON Web Token (RFC 7519) signed with ES256 (RFC 7518, section 3.4): elliptic curves because making an RSA
key takes up to a second. Its claims are those of Kubernetes. It is worth something only while the account, and the pod
or secret it is bound to, are there with the same uid.
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
"""Longer ones are nobody's: a token that we issue is far from that, whatever its audiences."""
_GONE_SECONDS = 60
"""For how long a terminating object still counts after its grace period, as in Kubernetes."""


class AccountTokens:
    """Issues and recognises tokens.

    Args:
        key_path: Where the signing key is kept (mode 0600), made when missing; None keeps it in memory.
        clock: Dates the tokens.

    Raises:
        UsageError: The file is there and holds no key of ours.
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
        """Check from now on that accounts and bound objects are still there."""
        self._look_up = look_up

    def issue(
        self, account: Json, *, audiences: Sequence[str], seconds: int, bound: Sequence[Json], token_id: str
    ) -> str:
        """Return a new token of an account.

        Args:
            account: The ServiceAccount.
            audiences: Whom it is meant for.
            seconds: How long it is good for.
            bound: The object whose end is the token's end; behind a pod its node.
            token_id: Tells this token from all others.
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
        """Return what tokens are verified with, as JSON Web Keys (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_pack(number.to_bytes(_SIZE, "big")) for number in (numbers.x, numbers.y))
        return [{"use": "sig", "kty": "EC", "kid": self._key_id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}]

    def find(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, Sequence[str]] | None:
        """Return whose token this is, and for which of the audiences; without any, of this API.

        None when it is not ours, has ended or is for other audiences.
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
            if not (name == "Node" and "pod" in private):  # told of the pod's node, not bound to it
                place = namespace if kind.namespaced else ""
                if not self._is_there(kind, place, bound, now):
                    return None
            if name != "Secret":
                extra.append((f"authentication.kubernetes.io/{name.lower()}-name", (bound["name"],)))
                extra.append((f"authentication.kubernetes.io/{name.lower()}-uid", (bound["uid"],)))
        return service_account(namespace, account["name"], account["uid"], tuple(sorted(extra)))

    def _is_there(self, kind: Kind, namespace: str, wanted: Json, now: float) -> bool:
        """Whether an object is the same one still, and did not have to be gone by now."""
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
"""Of tokens that an earlier version has issued: they name no key."""
