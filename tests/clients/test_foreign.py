"""Clients in Go, Java and JavaScript, as released: each program says what works, and ends at what does not."""

from __future__ import annotations

import pytest

from tests.clients.foreign import FOLDERS, installed, what_works
from tests.e2e.gobuild import built
from tests.e2e.worlds import EmbeddedWorld

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]

SITES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.strato.test"},
    "spec": {
        "group": "strato.test",
        "scope": "Namespaced",
        "names": {"kind": "Site", "plural": "sites"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"text": {"type": "string"}, "replicas": {"type": "integer"}},
                            },
                            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


def test_an_operator_applies_what_it_owns_and_informers_stream(sandbox: EmbeddedWorld, namespace: str) -> None:
    operator = built(FOLDERS / "operator", "clients/operator") / "operator"
    sandbox.apply(SITES)
    sandbox.kubectl("wait", "--for=condition=Established", "crd/sites.strato.test", "--timeout=60s")
    works = what_works([operator, namespace], sandbox)
    assert {"lists come as watches", "objects are sent as protobuf"} <= set(works)
    assert {"the operator owns what it applied", "an apply leaves others' fields", "what it owned goes with it"} <= set(
        works
    )


def test_java(sandbox: EmbeddedWorld, namespace: str) -> None:
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    folder = installed("java", fetch, ["mvn", "-q", "-B", "compile"])
    works = what_works(["java", "-cp", f"{folder}/target/classes:{folder}/lib/*", "Program", namespace], sandbox)
    assert len(works) == 17, works


def test_javascript(sandbox: EmbeddedWorld, namespace: str) -> None:
    folder = installed("javascript", ["npm", "ci", "--no-audit", "--no-fund"])
    works = what_works(["node", folder / "program.js", namespace], sandbox)
    assert len(works) == 13, works
