"""Server-side apply with stock kubectl: owners, conflicts, taking over, the way from client-side apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.worlds import World

pytestmark = pytest.mark.e2e


def deployment(replicas: int | None, **labels: str) -> str:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "busybox", "command": ["sleep", "3600"]}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    metadata = {"name": "web", "labels": {"team": "a", **labels}}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def owners(world: World, namespace: str) -> dict[str, str]:
    """Return the operations of those who own the replicas."""
    text = world.kubectl("-n", namespace, "get", "deployment", "web", "--show-managed-fields", "-o", "json")
    entries = json.loads(text)["metadata"]["managedFields"]
    return {
        entry["manager"]: entry["operation"] for entry in entries if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }


def apply(world: World, namespace: str, text: str, *options: str, fails: bool = False) -> str:
    arguments = ("-n", namespace, "apply", "--server-side", *options, "-f", "-")
    if fails:
        done = world.kubectl_process(*arguments, stdin=text, check=False)
        assert done.returncode != 0
        return done.stderr
    return world.kubectl(*arguments, stdin=text)


def test_conflicts_name_who_owns_a_field_and_are_overcome_by_force(world: World, namespace: str) -> None:
    assert "serverside-applied" in apply(world, namespace, deployment(0))
    assert owners(world, namespace) == {"kubectl": "Apply"}
    hidden = world.kubectl("-n", namespace, "get", "deployment", "web", "-o", "json")
    assert "managedFields" not in hidden
    problem = apply(world, namespace, deployment(1), "--field-manager", "other", fails=True)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas' in problem
    apply(world, namespace, deployment(1), "--field-manager", "other", "--force-conflicts")
    assert owners(world, namespace) == {"other": "Apply"}
    apply(world, namespace, deployment(None))
    assert owners(world, namespace) == {"other": "Apply"}


def test_scaling_takes_the_replicas_over(world: World, namespace: str) -> None:
    apply(world, namespace, deployment(0))
    world.kubectl("-n", namespace, "scale", "deployment", "web", "--replicas", "2")
    problem = apply(world, namespace, deployment(0), fails=True)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in problem
    apply(world, namespace, deployment(None))
    assert world.kubectl("-n", namespace, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_client_side_apply_becomes_server_side_apply(world: World, namespace: str) -> None:
    world.kubectl("-n", namespace, "apply", "-f", "-", stdin=deployment(0, old="yes"))
    assert owners(world, namespace) == {"kubectl-client-side-apply": "Update"}
    apply(world, namespace, deployment(1))
    assert owners(world, namespace) == {"kubectl": "Apply"}
    labels = world.kubectl("-n", namespace, "get", "deployment", "web", "-o", "jsonpath={.metadata.labels}")
    assert json.loads(labels) == {"team": "a"}  # what client-side apply wrote was its to remove


def test_dry_run_and_diff_change_nothing(world: World, namespace: str) -> None:
    assert "(server dry run)" in apply(world, namespace, deployment(0), "--dry-run=server")
    found = world.kubectl("-n", namespace, "get", "deployment", "web", "--ignore-not-found")
    assert found == ""
    apply(world, namespace, deployment(0))
    assert "serverside-applied" in apply(world, namespace, deployment(0))
    problem = apply(world, namespace, deployment(0).replace('"replicas"', '"replicaz"'), fails=True)
    assert ".spec.replicaz: field not declared in schema" in problem
