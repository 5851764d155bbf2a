"""The cluster's own certificate authority: server certificate and client certificates, kept as files.

Files are reused across restarts. The server's certificate is renewed when a third of its lifetime is left or its names
have changed, the CA's when it is about to expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from strato.api.wire import User
from strato.clock import Clock
from strato.errors import UsageError
from strato.pki import Authority, KeyPair
from strato.server.auth.files import write_secret

_CA_DAYS = 3650
_LEAF_DAYS = 365
_RENEW_DAYS = 120
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Peer(NamedTuple):
    """A client's certificate."""

    user: User | None
    """The user it names; None if our CA has not issued it, or it names no user."""
    begins: float
    ends: float
    """Seconds since 1970."""


class CertificateAuthority:
    """Issues certificates; created in a folder, or loaded from it.

    Args:
        folder: Holds ``ca.crt``, ``ca.key``, ``server.crt``, ``server.key``, each of mode 0600.
        clock: Gives the certificates' times.

    Raises:
        UsageError: A file exists and cannot be used.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._authority = self._load_or_make()

    @property
    def certificate_path(self) -> Path:
        """The CA's certificate as a file, for TLS and clients."""
        return self._folder / "ca.crt"

    @property
    def certificate(self) -> bytes:
        """The CA's certificate, PEM."""
        return self._authority.pair.certificate

    def server_files(self, names: Sequence[str] = (), *, stem: str = "server") -> tuple[Path, Path]:
        """Return paths of a server's certificate and key, created or renewed if needed.

        Args:
            names: Host names and addresses in addition to the loopback ones.
            stem: Stem of the files' names, a different one for each server.
        """
        wanted = list(dict.fromkeys((*LOOPBACK_NAMES, *names)))
        certificate, key = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        if not self._is_good(certificate, key, wanted):
            now = self._clock.now()
            pair = self._authority.server("strato-apiserver", wanted, now_seconds=now, days=_LEAF_DAYS)
            write_secret(key, pair.private_key)
            write_secret(certificate, pair.certificate)
        return certificate, key

    def client(self, user: User) -> KeyPair:
        """Issue a client certificate, with the user's name as common name and its groups as organizations."""
        return self._authority.client(user.name, user.groups, now_seconds=self._clock.now(), days=_LEAF_DAYS)

    def user_of(self, peer: bytes) -> User | None:
        """Return the user of a certificate (DER) that TLS has verified; None if not this CA's, or not valid now."""
        known = self.identify(peer)
        return known.user if self.is_now(known) else None

    def identify(self, peer: bytes) -> Peer:
        """Return user and validity period of a certificate (DER), without comparing it with the clock."""
        certificate = x509.load_der_x509_certificate(peer)
        times = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
        try:
            certificate.verify_directly_issued_by(self._authority.certificate)
            purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return Peer(None, *times)
        return Peer(user_named(certificate) if ExtendedKeyUsageOID.CLIENT_AUTH in purposes else None, *times)

    def is_now(self, peer: Peer) -> bool:
        """Return whether a certificate is valid now."""
        return peer.begins <= self._clock.now() <= peer.ends

    def _load_or_make(self) -> Authority:
        certificate, key = self._folder / "ca.crt", self._folder / "ca.key"
        now = self._clock.now()
        if certificate.exists() and key.exists():
            try:
                known = Authority.from_pem(certificate.read_bytes(), key.read_bytes())
            except ValueError as error:
                raise UsageError(
                    f"{self._folder}: ca.crt or ca.key cannot be used ({error}); remove both to start anew"
                ) from error
            if known.lasts(now_seconds=now, days=_RENEW_DAYS):
                return known
        made = Authority.make("strato-ca", now_seconds=now, days=_CA_DAYS)
        write_secret(key, made.pair.private_key)
        write_secret(certificate, made.pair.certificate)
        return made

    def _is_good(self, certificate: Path, key: Path, names: Sequence[str]) -> bool:
        try:
            pair = KeyPair(certificate.read_bytes(), key.read_bytes())
        except OSError:
            return False
        return self._authority.vouches_for(pair, names, now_seconds=self._clock.now(), days=_RENEW_DAYS)


def user_named(certificate: x509.Certificate) -> User | None:
    """Return the user a verified client certificate names: common name and organizations; None without a name."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if not names or not names[-1].value:
        return None
    listed = (*(str(one.value) for one in groups), "system:authenticated")
    return User(str(names[-1].value), tuple(dict.fromkeys(listed)))
