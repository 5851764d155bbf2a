"""X.509 on P-256 keys: authorities that issue certificates. Pure except for random keys: dates are arguments.

Keys are elliptic, because making an RSA key takes up to a second. `strato.server.auth.ca` stores the embedded server's
certificates in files, `strato.admission.webhook.certificates` the webhook's in a Secret.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW = timedelta(minutes=5)
"""Certificates are valid from this long before now, for machines whose clocks are slow."""

_PURPOSES = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    private_key: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str, *, now_seconds: float, days: float) -> Authority:
        """Make a new, self-signed authority.

        Args:
            name: Its common name.
            now_seconds: Unix time.
            days: How long it is valid.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key.public_key(), now_seconds, days)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def from_pem(cls, certificate: bytes, private_key: bytes) -> Authority:
        """Read an authority from its certificate and key.

        Raises:
            ValueError: One of the two cannot be read, or the key is not the certificate's.
        """
        loaded, key = x509.load_pem_x509_certificate(certificate), load_pem_private_key(private_key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or loaded.public_key() != key.public_key():
            raise ValueError("certificate and key do not belong together")
        return cls(loaded, key)

    @property
    def pair(self) -> KeyPair:
        """Certificate and key as PEM."""
        return KeyPair(self.certificate.public_bytes(Encoding.PEM), _key_pem(self.key))

    def lasts(self, *, now_seconds: float, days: float) -> bool:
        """Whether the authority's certificate is valid for longer than ``days`` from now."""
        return self.certificate.not_valid_after_utc - _date(now_seconds) > timedelta(days=days)

    def server(self, name: str, hosts: Sequence[str], *, now_seconds: float, days: float) -> KeyPair:
        """Issue a server's certificate for host names and addresses."""
        return self._issue(name, (), hosts, ExtendedKeyUsageOID.SERVER_AUTH, now_seconds, days)

    def client(self, name: str, groups: Sequence[str], *, now_seconds: float, days: float) -> KeyPair:
        """Issue a client's certificate; its groups are written as organizations."""
        return self._issue(name, groups, (), ExtendedKeyUsageOID.CLIENT_AUTH, now_seconds, days)

    def sign(
        self, request: x509.CertificateSigningRequest, usages: Sequence[str], *, now_seconds: float, seconds: float
    ) -> bytes:
        """Return a certificate (PEM) with the subject, alternative names and key of a request.

        Args:
            request: The request; the caller has checked its signature.
            usages: Kubernetes' names of the key usages.
            now_seconds: Unix time.
            seconds: How long the certificate is valid; cut to the validity of the authority.
        """
        key = request.public_key()
        begin, end = _date(now_seconds) - _SKEW, _date(now_seconds + seconds)
        builder = x509.CertificateBuilder().subject_name(request.subject).issuer_name(self.certificate.subject)
        builder = builder.public_key(key).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(begin).not_valid_after(min(end, self.certificate.not_valid_after_utc))
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        agrees = "key agreement" in usages
        flags = {
            "digital_signature": "digital signature" in usages or "signing" in usages,
            "content_commitment": "content commitment" in usages,
            "key_encipherment": "key encipherment" in usages,
            "data_encipherment": "data encipherment" in usages,
            "key_agreement": agrees,
            "key_cert_sign": False,  # a leaf signs no certificates
            "crl_sign": "crl sign" in usages,
            "encipher_only": agrees and "encipher only" in usages,
            "decipher_only": agrees and "decipher only" in usages,
        }
        if any(flags.values()):  # OpenSSL accepts a certificate whose extension has no usage for no purpose at all
            builder = builder.add_extension(x509.KeyUsage(**flags), critical=True)
        purposes = [_PURPOSES[word] for word in usages if word in _PURPOSES]
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer_key, critical=False)
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=names.critical)
        except x509.ExtensionNotFound:
            pass
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def vouches_for(self, pair: KeyPair, hosts: Sequence[str], *, now_seconds: float, days: float) -> bool:
        """Whether this authority issued a server's certificate, for at least these hosts, valid for ``days`` more."""
        try:
            have = x509.load_pem_x509_certificate(pair.certificate)
            key = load_pem_private_key(pair.private_key, None)
            have.verify_directly_issued_by(self.certificate)
            listed = have.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False  # unreadable, or issued by another authority
        enough = have.not_valid_after_utc - _date(now_seconds) > timedelta(days=days)
        return enough and key.public_key() == have.public_key() and all(_alternative(host) in listed for host in hosts)

    def _issue(
        self,
        name: str,
        groups: Sequence[str],
        hosts: Sequence[str],
        purpose: x509.ObjectIdentifier,
        now_seconds: float,
        days: float,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self.certificate.subject, key.public_key(), now_seconds, days)
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer_key, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(Encoding.PEM), _key_pem(key))


def pem_if_issued(certificate: bytes, authorities: bytes, *, now_seconds: float) -> bytes | None:
    """Return a certificate as PEM if one of the authorities has signed it; else None.

    The authority's own certificate must allow it to sign others, and be valid now.

    Args:
        certificate: DER; its own dates, names and purposes are not checked.
        authorities: Certificates of authorities, PEM.
        now_seconds: Unix time.
    """
    now = _date(now_seconds)
    try:
        leaf, known = x509.load_der_x509_certificate(certificate), x509.load_pem_x509_certificates(authorities)
        for authority in known:
            is_valid = authority.not_valid_before_utc <= now <= authority.not_valid_after_utc
            if is_valid and _may_sign(authority) and _has_signed(authority, leaf):
                return leaf.public_bytes(Encoding.PEM)
    except ValueError:  # one of the inputs is no certificate
        pass
    return None


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _may_sign(authority: x509.Certificate) -> bool:
    """Whether a certificate is an authority's without name constraints, which this module does not check."""
    try:
        limited = x509.OID_NAME_CONSTRAINTS in {extension.oid for extension in authority.extensions}
        return authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca and not limited
    except x509.ExtensionNotFound:
        return False


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_seconds: float, days: float
) -> x509.CertificateBuilder:
    now = _date(now_seconds)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _SKEW).not_valid_after(now + timedelta(days=days))


def _date(now_seconds: float) -> datetime:
    return datetime.fromtimestamp(now_seconds, UTC)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
