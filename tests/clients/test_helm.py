"""Helm 3 and 4: a chart with a claim, a server, a job and hooks is installed, upgraded, rolled back and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.helmprogram import SOURCES, Helm, helm_of
from tests.e2e.worlds import EmbeddedWorld

CHART = str(SOURCES / "chart")

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]


@pytest.fixture(params=[3, 4])
def helm(request: pytest.FixtureRequest, sandbox: EmbeddedWorld, namespace: str, tmp_path: Path) -> Helm:
    """Return what runs Helm of one version in a namespace."""
    return helm_of(request.param, sandbox, namespace, tmp_path)


def test_a_release_lives(sandbox: EmbeddedWorld, namespace: str, helm: Helm) -> None:
    own = ("-n", namespace)

    def page(name: str) -> str:
        return sandbox.kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/services/shop:80/proxy/{name}.txt")

    wait = ("--wait", "--wait-for-jobs", "--timeout", "240s")
    helm("install", "shop", CHART, *wait)
    assert (page("greeting"), page("filled")) == ("hello\n", "filled\n")
    assert sandbox.get("pvc", "shop-books", *own)["status"]["phase"] == "Bound"
    assert sandbox.kubectl("logs", "job/shop-pre-install", *own) == "pre-install\n"

    helm("upgrade", "shop", CHART, "--set", "greeting=welcome", "--set", "replicas=2", *wait)
    assert page("greeting") == "welcome\n"
    assert sandbox.get("deployment", "shop", *own)["status"]["availableReplicas"] == 2
    assert sandbox.kubectl("logs", "job/shop-post-upgrade", *own) == "post-upgrade\n"

    helm("rollback", "shop", "1", *wait)
    assert page("greeting") == "hello\n"
    assert sandbox.get("deployment", "shop", *own)["spec"]["replicas"] == 1
    history = json.loads(helm("history", "shop", "-o", "json"))
    assert [entry["status"] for entry in history] == ["superseded", "superseded", "deployed"]

    helm("uninstall", "shop", "--wait", "--timeout", "240s")
    assert json.loads(helm("list", "-o", "json")) == []
    left = sandbox.kubectl("get", "deployments,services,pvc,configmaps", "-o", "name", *own).split()
    assert left == ["configmap/kube-root-ca.crt"]
    hooks = [f"job.batch/shop-{hook}" for hook in ("post-upgrade", "pre-delete", "pre-install")]
    assert sandbox.kubectl("get", "jobs", "-o", "name", *own).split() == hooks, "Helm leaves hooks there"
