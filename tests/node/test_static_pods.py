"""Pods that a node keeps running by itself, of files in its directory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from strato.api import catalog
from strato.api.meta import Key
from strato.api.pods import MIRROR
from strato.node.sandbox import staticpods
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.staticpods import DIRECTORY, HASH, SOURCE, BadManifest, read_static_pod
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "main", "image": "strato/host", "command": ["sleep", "1000"]}]},
}


def test_what_a_node_makes_of_a_file() -> None:
    found = read_static_pod(json.dumps(POD).encode(), "n")
    assert found.key == Key("default", "p-n")
    metadata, spec = found.body["metadata"], found.body["spec"]
    assert metadata["annotations"] == {HASH: found.hash, MIRROR: found.hash, SOURCE: "file"}
    assert (spec["nodeName"], spec["tolerations"]) == ("n", [{"operator": "Exists", "effect": "NoExecute"}])
    assert read_static_pod(json.dumps(POD).encode(), "m").hash != found.hash, "nodes have pods of their own"


BAD = [
    pytest.param(b"{", "did not find expected node content", id="no YAML"),
    pytest.param(b"- a", "apiVersion and kind have to be v1 and Pod", id="no object"),
    pytest.param(b"kind: Service\napiVersion: v1", "apiVersion and kind have to be v1 and Pod", id="another kind"),
    pytest.param(b"kind: Pod\napiVersion: v1\nspec: {}", "metadata.name and spec have to be there", id="no name"),
    pytest.param(b"kind: Pod\napiVersion: v1\nmetadata: {name: [1]}\nspec: {}", "metadata.name", id="no text"),
    pytest.param(b"kind: Pod\napiVersion: v1\nmetadata: {name: a}", "metadata.name and spec", id="no spec"),
    pytest.param(
        b"kind: Pod\napiVersion: v1\nmetadata: {name: a, annotations: [1]}\nspec: {}",
        "has to be an object",
        id="a list",
    ),
    pytest.param(
        b"kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {tolerations: 5}", "tolerations a list", id="a number"
    ),
]


@pytest.mark.parametrize(("data", "why"), BAD)
def test_files_that_are_no_pods(data: bytes, why: str) -> None:
    with pytest.raises(BadManifest, match=why):
        read_static_pod(data, "n")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the node's, whose files are looked at often."""
    (tmp_path / "node" / DIRECTORY).mkdir(parents=True)
    with mock.patch.object(staticpods, "_PERIOD_SECONDS", 0.05):
        yield tmp_path / "node"
    teardown(tmp_path / "node")


def write(directory: Path, name: str, body: dict[str, Any]) -> None:
    draft = directory / DIRECTORY / f".{name}"
    draft.write_text(json.dumps(body))
    draft.rename(directory / DIRECTORY / name)


def uid_of(world: World) -> str:
    found = world.api.objects.get("/api/v1/namespaces/default/pods/p-here")
    return str(found["metadata"]["uid"]) if found is not None else ""


def runs(world: World) -> bool:
    found = world.api.objects.get("/api/v1/namespaces/default/pods/p-here") or {}
    return bool((found.get("status") or {}).get("phase") == "Running")


async def test_a_pod_follows_its_file(directory: Path) -> None:
    async with running(directory, FakeApi()) as world:
        write(directory, "p.yaml", POD)
        await until(lambda: runs(world))
        first = uid_of(world)
        (owner,) = world.api.objects["/api/v1/namespaces/default/pods/p-here"]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", "here", True)

        changed = {**POD, "spec": {**POD["spec"], "terminationGracePeriodSeconds": 0}}  # type: ignore[dict-item]  # a copy of a map
        write(directory, "p.yaml", changed)
        await until(lambda: uid_of(world) not in ("", first) and runs(world))
        second = uid_of(world)
        await world.api.cluster().delete(catalog.POD, "p-here", "default", grace_period_seconds=0)
        await until(lambda: uid_of(world) not in ("", second) and runs(world))

        write(directory, "q.yaml", POD)  # for the same pod, and later by name
        write(directory, "z.yaml", {"kind": "Service"})
        while len([1 for reason, _ in await world.events() if reason == "InvalidStaticPod"]) < 2:
            await asyncio.sleep(0.01)
        (directory / DIRECTORY / "q.yaml").unlink()
        (directory / DIRECTORY / "p.yaml").unlink()
        await until(lambda: uid_of(world) == "")
        told = sorted(message for reason, message in await world.events() if reason == "InvalidStaticPod")
        assert [message.partition(DIRECTORY + "/")[2] for message in told] == [
            "q.yaml is no static pod: another file is for pod default/p-here",
            "z.yaml is no static pod: apiVersion and kind have to be v1 and Pod",
        ]
