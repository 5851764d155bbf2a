"""Pairs of ssh keys: both halves are read back."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
    load_ssh_public_key,
)

from strato.controllers.sshkeys import key_pair


@pytest.mark.parametrize(
    ("key", "header", "algorithm"),
    [
        (rsa.generate_private_key(public_exponent=65537, key_size=2048), "RSA PRIVATE KEY", "ssh-rsa"),
        (ec.generate_private_key(ec.SECP521R1()), "EC PRIVATE KEY", "ecdsa-sha2-nistp521"),
    ],
)
def test_both_halves_are_of_the_key(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, header: str, algorithm: str
) -> None:
    private, public = key_pair(key)
    assert private.startswith(f"-----BEGIN {header}-----\n")
    assert public.startswith(f"{algorithm} ")
    assert public.endswith("\n")
    assert public.count("\n") == 1
    assert load_pem_private_key(private.encode(), None).private_numbers() == key.private_numbers()  # type: ignore[union-attr] # of these two algorithms both have numbers
    assert load_ssh_public_key(public.encode()).public_numbers() == key.public_key().public_numbers()  # type: ignore[union-attr] # likewise
