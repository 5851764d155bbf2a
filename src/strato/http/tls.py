"""TLS settings of servers and of clients."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from strato.errors import UsageError, one_line


def server_context(
    certificate: Path | None = None, key: Path | None = None, *, client_ca: Path | None = None
) -> ssl.SSLContext:
    """Return a server's TLS settings; `load_pair` can load a certificate later, or another one.

    Args:
        certificate: PEM file of the chain.
        key: PEM file of its key.
        client_ca: PEM file of the authority of client certificates; the server then asks for one but requires none.

    Raises:
        OSError: A file cannot be read, or holds no certificate or key; `ssl.SSLError` is one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(client_ca)
    return context


def client_context(
    server: str = "", *, ca: bytes | None = None, insecure: bool = False, pair: tuple[bytes, bytes] | None = None
) -> ssl.SSLContext:
    """Return a client's TLS settings; reads the system's authorities from disk unless ``ca`` is given.

    Args:
        server: The server's name for error messages.
        ca: PEM certificates to trust; None trusts the system's.
        insecure: Trust any certificate.
        pair: Client certificate chain and key to present, PEM.

    Raises:
        UsageError: A certificate or key cannot be used; the message says which.
    """
    try:
        given = ca.decode("ascii") if ca else None
        if insecure:
            # not `create_default_context`: OpenSSL would search the system's authorities on disk at every connection
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if given:
                context.load_verify_locations(cadata=given)  # reports a malformed one
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context = ssl.create_default_context(cadata=given)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise UsageError(f"the certificate authority of {server} is not PEM: {one_line(error)}") from error
    # Python ≥ 3.13 requires extensions of a CA that Go and OpenSSL do not, and that many clusters' CAs lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if pair is not None:
        try:
            load_pair(context, *pair)
        except OSError as error:
            why = one_line(error)
            raise UsageError(f"the client certificate for {server} and its key cannot be used: {why}") from error
    return context


def load_pair(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Present a certificate chain on new connections; chain and key are PEM.

    Raises:
        OSError: They cannot be used; `ssl.SSLError` is one.
    """
    with tempfile.TemporaryDirectory(prefix="strato-") as directory:  # mode 0700; OpenSSL only reads files
        chain_file, key_file = Path(directory, "chain.pem"), Path(directory, "key.pem")
        chain_file.write_bytes(chain)
        key_file.write_bytes(key)
        context.load_cert_chain(chain_file, key_file)
