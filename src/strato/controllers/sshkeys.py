"""Pairs of ssh keys as OpenSSH reads them.

Keys use the operating system's random numbers, never an injected generator, whose numbers could be predicted.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def key_pair(key: RSAPrivateKey | EllipticCurvePrivateKey) -> tuple[str, str]:
    """Return a private key as PEM (PKCS#1 or SEC 1), and its public key as a line of ``authorized_keys``."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()}\n"
