"""The three options that name a certificate which the user manages."""

from __future__ import annotations

from pathlib import Path

import click

from strato.cli.monitoring import TlsFiles
from strato.cli.optiongroups import option_group
from strato.errors import UsageError


def tls_files(tls_cert_file: str, tls_private_key_file: str, ca_cert_file: str) -> TlsFiles | None:
    """Return the files if all are named, None if none is.

    Raises:
        UsageError: Only some are.
    """
    names = (tls_cert_file, tls_private_key_file, ca_cert_file)
    if all(names):
        certificate, key, authority = map(Path, names)
        return TlsFiles(certificate=certificate, key=key, authority=authority)
    if any(names):
        raise UsageError("--tls-cert-file, --tls-private-key-file and --ca-cert-file go together: give all or none")
    return None


tls_options = option_group(
    "tls",
    tls_files,
    (
        click.option("--tls-cert-file", default="", metavar="FILE", help="Certificate that is renewed elsewhere."),
        click.option("--tls-private-key-file", default="", metavar="FILE", help="Its key."),
        click.option("--ca-cert-file", default="", metavar="FILE", help="Its authority."),
    ),
)
"""Adds the options to a command, which takes them as ``tls``, None when none is given."""
