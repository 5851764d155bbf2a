"""An operator written with kopf, as a process on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.pki import Authority
from tests.clients.environments import PROGRAMS, environment
from tests.e2e.worlds import EmbeddedWorld, eventually

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {"size": {"type": "integer"}, "greeting": {"type": "string"}},
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
NAMES = {"kind": "Kiosk", "plural": "kiosks", "singular": "kiosk"}
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {"status": {}},
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "kiosks.examples.strato.dev"},
    "spec": {"group": "examples.strato.dev", "scope": "Namespaced", "names": NAMES, "versions": [VERSION]},
}


def kiosk(name: str, size: int) -> str:
    body = {"apiVersion": "examples.strato.dev/v1", "kind": "Kiosk", "metadata": {"name": name}, "spec": {"size": size}}
    return json.dumps(body)


@pytest.fixture
def operator(hollow: EmbeddedWorld, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    hollow.apply(DEFINITION)
    hollow.kubectl("wait", "--for=condition=Established", "crd/kiosks.examples.strato.dev", "--timeout=60s")
    now = time.time()
    authority = Authority.make("authority of webhooks", now_seconds=now, days=1)
    pair = authority.server("kopf", ("127.0.0.1",), now_seconds=now, days=1)
    (tmp_path / "ca.crt").write_bytes(authority.pair.certificate)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.private_key)
    kopf = environment("kopf") / "bin" / "kopf"
    with (tmp_path / "operator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(kopf), "run", "-A", "--verbose", str(PROGRAMS / "kopf_operator.py")],
            env={**os.environ, "KUBECONFIG": str(hollow.kubeconfig), "CERTIFICATES": str(tmp_path)},
            stdout=log,
            stderr=log,
        )
        yield process
        process.terminate()
        process.wait(timeout=120)


def found(world: EmbeddedWorld, *args: str) -> Any:
    return world.get(*args) or {}


def test_an_operator_keeps_its_objects(hollow: EmbeddedWorld, operator: subprocess.Popen[bytes]) -> None:
    def is_asked() -> bool:
        assert operator.poll() is None
        done = hollow.kubectl_process("create", "--dry-run=server", "-f", "-", stdin=kiosk("shop", 6), check=False)
        return "a kiosk of more than 5 is a shop" in done.stderr

    eventually(is_asked, what="the webhooks of the operator are called")
    created = hollow.kubectl_process("create", "-f", "-", stdin=kiosk("corner", 4))
    assert "Warning: that is a large kiosk" in created.stderr
    eventually(lambda: found(hollow, "kiosk", "corner").get("status", {}).get("books") == 4, what="it is stocked")
    made = hollow.get("kiosk", "corner")
    assert made["spec"]["greeting"] == "hello", "its mutating webhook fills that in"
    assert made["metadata"]["finalizers"], "its handler of deletions is a finalizer"
    shelf = hollow.get("configmap", "corner-shelf")
    assert shelf["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    hollow.kubectl("patch", "kiosk", "corner", "--type=merge", "-p", '{"spec": {"size": 2}}')
    eventually(
        lambda: found(hollow, "configmap", "corner-shelf").get("data") == {"books": "2"}, what="its update is handled"
    )
    ticks = found(hollow, "kiosk", "corner")["status"].get("ticks", 0)
    eventually(lambda: found(hollow, "kiosk", "corner")["status"].get("ticks", 0) > ticks, what="its timer runs")
    events = [event["reason"] for event in hollow.items("events") if event["involvedObject"]["kind"] == "Kiosk"]
    assert "Stocked" in events
    hollow.kubectl("delete", "kiosk", "corner", "--timeout=120s")
    assert hollow.get("configmap", "corner-closed"), "its handler ran before it was gone"
    eventually(lambda: hollow.get("configmap", "corner-shelf") is None, what="what it owned is collected")
