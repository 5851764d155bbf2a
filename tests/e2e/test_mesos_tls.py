"""The Mesos master over TLS: clients trust an authority, and a renewed certificate is shown without a restart."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from strato.clock import SystemClock
from strato.http.tls import client_context
from strato.pki import Authority
from strato.testing.mesosframework import FrameworkClient
from tests.e2e.worlds import embedded, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(300)]

INFO = {"user": "u", "name": "n"}


def test_a_framework_trusts_the_clusters_authority_and_nobody_else(tmp_path: Path) -> None:
    port, events = free_port(), list[dict[str, Any]]()
    options = ("--no-sandbox", "--hollow-nodes", "1", "--mesos", "--mesos-port", str(port), "--mesos-tls")
    with embedded(tmp_path / "home", *options) as world:
        authority = (world.home / "pki" / "ca.crt").read_bytes()

        def framework(ca: bytes) -> FrameworkClient:
            context = client_context("the master", ca=ca)
            return FrameworkClient(f"127.0.0.1:{port}", INFO, lambda _, event: events.append(event), tls=context)

        with framework(authority) as trusting:
            eventually(lambda: any(e["type"] == "OFFERS" for e in events), timeout=60, what="something is offered")
            [offered] = [event for event in events if event["type"] == "OFFERS"]
            assert offered["offers"]["offers"][0]["url"]["scheme"] == "https"
            trusting.call("TEARDOWN")
            assert not trusting.errors
        other = Authority.make("other", now_seconds=SystemClock().now(), days=1)
        with pytest.raises(ssl.SSLCertVerificationError):
            framework(other.pair.certificate).connect()


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    now = SystemClock().now()
    authority, port = Authority.make("test", now_seconds=now, days=1), free_port()
    files = tmp_path / "tls.crt", tmp_path / "tls.key"

    def renew() -> bytes:
        pair = authority.server("master", ["127.0.0.1"], now_seconds=now, days=1)
        files[0].write_bytes(pair.certificate)
        files[1].write_bytes(pair.private_key)
        return pair.certificate

    def is_shown(certificate: bytes) -> bool:
        shown = ssl.get_server_certificate(("127.0.0.1", port))
        return shown.split() == certificate.decode().split()

    first = renew()
    options = ("--no-sandbox", "--hollow-nodes", "1", "--mesos", "--mesos-port", str(port),
               "--mesos-tls-cert-file", str(files[0]), "--mesos-tls-private-key-file", str(files[1]))  # fmt: skip
    with embedded(tmp_path / "home", *options):
        assert is_shown(first)
        second = renew()
        eventually(lambda: is_shown(second), timeout=60, what="the renewed certificate is shown")
