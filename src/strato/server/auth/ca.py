"""The cluster's own certificate authority: server certificate and client certificates, on P-256 keys.

Elliptic curves because making an RSA key takes up to a second. Files are reused across restarts; the server's
certificate is renewed when a third of its life is left or its names changed, the CA when it is about to end.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from strato.api.wire import User
from strato.clock import Clock
from strato.errors import UsageError
from strato.server.auth.files import write_secret

_CA_DAYS = 3650
_LEAF_DAYS = 365
_RENEW_DAYS = 120
_SKEW = timedelta(minutes=5)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    private_key: bytes


class CertificateAuthority:
    """Issues certificates; made or reloaded from a folder.

    Args:
        folder: Holds ``ca.crt``, ``ca.key``, ``server.crt``, ``server.key``, each of mode 0600.
        clock: Dates the certificates.

    Raises:
        UsageError: A file is there and cannot be used.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._certificate, self._key = self._load_or_make()

    @property
    def certificate_path(self) -> Path:
        """The CA's certificate as a file, for TLS and clients."""
        return self._folder / "ca.crt"

    @property
    def certificate(self) -> bytes:
        """The CA's certificate, PEM."""
        return self._certificate.public_bytes(Encoding.PEM)

    def server_files(self, names: Sequence[str] = ()) -> tuple[Path, Path]:
        """Return paths of the server's certificate and key, made or renewed if needed.

        Args:
            names: Host names and addresses beside the loopback ones.
        """
        wanted = list(dict.fromkeys((*LOOPBACK_NAMES, *names)))
        certificate, key = self._folder / "server.crt", self._folder / "server.key"
        if not self._is_good(certificate, key, wanted):
            pair = self._issue("strato-apiserver", (), wanted, ExtendedKeyUsageOID.SERVER_AUTH)
            write_secret(key, pair.private_key)
            write_secret(certificate, pair.certificate)
        return certificate, key

    def client(self, user: User) -> KeyPair:
        """Issue a client certificate: the name is its common name, the groups its organizations."""
        return self._issue(user.name, user.groups, (), ExtendedKeyUsageOID.CLIENT_AUTH)

    def user_of(self, peer: bytes) -> User | None:
        """Return whose certificate (DER) TLS has verified; None when this CA did not issue it or it has ended."""
        certificate = x509.load_der_x509_certificate(peer)
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return None
        if not certificate.not_valid_before_utc <= self._now() <= certificate.not_valid_after_utc:
            return None
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        if not names:
            return None
        listed = (*(str(one.value) for one in groups), "system:authenticated")
        return User(str(names[0].value), tuple(dict.fromkeys(listed)))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    def _load_or_make(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        certificate_path, key_path = self._folder / "ca.crt", self._folder / "ca.key"
        if certificate_path.exists() and key_path.exists():
            try:
                certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
                key = load_pem_private_key(key_path.read_bytes(), None)
            except ValueError as error:
                raise UsageError(
                    f"{self._folder}: ca.crt or ca.key cannot be read; remove both to start anew"
                ) from error
            if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
                raise UsageError(f"{self._folder}: ca.crt and ca.key do not belong together; remove both to start anew")
            if certificate.not_valid_after_utc - self._now() > timedelta(days=_RENEW_DAYS):
                return certificate, key
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "strato-ca")])
        builder = self._builder(name, name, key.public_key(), _CA_DAYS)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        certificate = builder.sign(key, hashes.SHA256())
        write_secret(key_path, _key_pem(key))
        write_secret(certificate_path, certificate.public_bytes(Encoding.PEM))
        return certificate, key

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        now = self._now()
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - _SKEW).not_valid_after(now + timedelta(days=days))

    def _issue(self, name: str, groups: Sequence[str], hosts: Sequence[str], purpose: x509.ObjectIdentifier) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, self._certificate.subject, key.public_key(), _LEAF_DAYS)
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer_key, critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(h) for h in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(Encoding.PEM), _key_pem(key))

    def _is_good(self, certificate: Path, key: Path, names: Sequence[str]) -> bool:
        try:
            have = x509.load_pem_x509_certificate(certificate.read_bytes())
            load_pem_private_key(key.read_bytes(), None)
            have.verify_directly_issued_by(self._certificate)
            listed = have.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except Exception:  # missing, broken or another CA's: all mean "make a new one"
            return False
        enough = have.not_valid_after_utc - self._now() > timedelta(days=_RENEW_DAYS)
        return enough and all(_alternative(name) in listed for name in names)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
