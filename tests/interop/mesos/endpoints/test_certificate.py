"""The certificate of the port: new files are shown to new connections, bad ones are not."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from strato.clock import SystemClock
from strato.http.listen import serve
from strato.http.plain import PlainService
from strato.interop.mesos.endpoints.certificate import CertificateFiles, FollowedCertificate
from strato.interop.mesos.endpoints.service import MasterEndpoints
from strato.pki import Authority

NOW = SystemClock().now()
AUTHORITY = Authority.make("test", now_seconds=NOW, days=1)


def _write(files: CertificateFiles, name: str) -> None:
    pair = AUTHORITY.server(name, ["localhost", "127.0.0.1"], now_seconds=NOW, days=1)
    files.certificate.write_bytes(pair.certificate)
    files.key.write_bytes(pair.private_key)


def _files(folder: Path) -> CertificateFiles:
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
    _write(files, "first")
    return files


def _name(der: bytes) -> str:
    text = ssl.DER_cert_to_PEM_cert(der)
    from cryptography import x509

    return x509.load_pem_x509_certificate(text.encode()).subject.rfc4514_string()


async def _shown(port: int) -> str:
    """Return whose certificate a client is shown that trusts the authority alone."""
    import asyncio

    context = ssl.create_default_context(cadata=AUTHORITY.pair.certificate.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 ")
    name = _name(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    return name


async def test_changed_files_are_shown_and_bad_ones_are_not(tmp_path: Path) -> None:
    files = _files(tmp_path)
    followed = FollowedCertificate(files, SystemClock())
    server = await serve(PlainService(MasterEndpoints({}).handle), "127.0.0.1", 0, tls=followed.context)
    try:
        assert await _shown(server.port) == "CN=first"
        _write(files, "second")
        followed.look()
        assert await _shown(server.port) == "CN=second"
        key = files.key.read_bytes()
        _write(files, "third")
        files.key.write_bytes(key)
        followed.look()
        assert await _shown(server.port) == "CN=second", "the key is another one's"
        files.certificate.unlink()
        followed.look()
        assert await _shown(server.port) == "CN=second"
        _write(files, "fourth")
        followed.look()
        assert await _shown(server.port) == "CN=fourth"
    finally:
        await server.stop()


@pytest.mark.parametrize("text", [b"", b"no certificate"])
def test_files_that_are_none_are_an_error_at_the_start(tmp_path: Path, text: bytes) -> None:
    files = _files(tmp_path)
    files.certificate.write_bytes(text)
    with pytest.raises(OSError):
        FollowedCertificate(files, SystemClock())


def test_a_certificate_that_is_missing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = _files(tmp_path)
    followed = FollowedCertificate(files, SystemClock())
    files.certificate.unlink()
    for _ in range(3):
        followed.look()
    assert caplog.text.count("the certificate is not loaded again") == 1
