"""The three options that name a certificate managed elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import click

from strato.cli.monitoring import TlsFiles
from strato.errors import UsageError


def tls_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options; ``command`` gets them as ``tls``, None when none is given.

    Raises:
        UsageError: Only some of the files are named.
    """

    @functools.wraps(command)
    def bundled(*, tls_cert_file: str, tls_private_key_file: str, ca_cert_file: str, **own: object) -> None:
        command(tls=tls_files(tls_cert_file, tls_private_key_file, ca_cert_file), **own)

    options = (
        click.option("--tls-cert-file", default="", metavar="FILE", help="Certificate that is renewed elsewhere."),
        click.option("--tls-private-key-file", default="", metavar="FILE", help="Its key."),
        click.option("--ca-cert-file", default="", metavar="FILE", help="Its authority."),
    )
    for option in reversed(options):
        bundled = option(bundled)
    return bundled


def tls_files(certificate: str, key: str, authority: str) -> TlsFiles | None:
    """Return the files if all are named, None if none is.

    Raises:
        UsageError: Only some are.
    """
    if certificate and key and authority:
        return TlsFiles(certificate=Path(certificate), key=Path(key), authority=Path(authority))
    if certificate or key or authority:
        raise UsageError("--tls-cert-file, --tls-private-key-file and --ca-cert-file go together: give all or none")
    return None
