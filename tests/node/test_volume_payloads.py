"""The files of volumes and the objects a pod waits for, decided without a machine: every source and its sibling."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strato.api.core import ConfigMap, Pod, Secret
from strato.node.sandbox.atomicwriter import DEFAULT_MODE
from strato.node.sandbox.environment import ConfigProblem, DownwardContext, References
from strato.node.sandbox.volumes import Inputs, own_directory, payload, referenced_objects

Json = dict[str, Any]
REFERENCES = References(
    {
        "c": msgspec.convert({"data": {"a": "1", "b": "2"}}, ConfigMap),
        "d": msgspec.convert({"data": {"b": "3"}}, ConfigMap),
    },
    {"s": msgspec.convert({"data": {"a": "cw=="}}, Secret), "t": msgspec.convert({"data": {"z": "dA=="}}, Secret)},
)
PLACE = DownwardContext("n", "9.9.9.9", "1.2.3.4", {"cpu": "8"})


def pod(*volumes: Json, containers: list[Json] | None = None, **spec: Any) -> Pod:
    named = [{"name": f"v{number}", **volume} for number, volume in enumerate(volumes)]
    made = [{"name": "m", "image": "i", "resources": {"limits": {"cpu": "2"}}}] if containers is None else containers
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "labels": {"l": "label"}}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": made, "volumes": named, **spec}}, Pod)


def files(volume: Json, **tokens: str) -> dict[str, tuple[str, int]] | None:
    made = pod(volume)
    found = payload(
        made.spec.volumes[0],
        Inputs(made, REFERENCES, PLACE, {(name, 3600): text for name, text in tokens.items()}),
    )
    return None if found is None else {path: (file.content.decode(), file.mode) for path, file in found.items()}


NAME = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
CPU = {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}}


def projected(*sources: Json, **more: Any) -> Json:
    return {"projected": {"sources": list(sources), **more}}


MODE = DEFAULT_MODE
PAYLOADS = [
    pytest.param({"emptyDir": {}}, None, id="of another kind"),
    pytest.param({"configMap": {"name": "c"}}, {"a": ("1", MODE), "b": ("2", MODE)}, id="a map"),
    pytest.param({"configMap": {"name": "c", "defaultMode": 0}}, {"a": ("1", 0), "b": ("2", 0)}, id="with no rights"),
    pytest.param(
        {"configMap": {"name": "c", "items": [{"key": "b", "path": "x/y"}]}}, {"x/y": ("2", MODE)}, id="one key of it"
    ),
    pytest.param(
        {"configMap": {"name": "c", "defaultMode": 1, "items": [{"key": "a", "path": "x", "mode": 0}]}},
        {"x": ("1", 0)}, id="a key with rights of its own",
    ),
    pytest.param({"secret": {"secretName": "s"}}, {"a": ("s", MODE)}, id="a secret"),
    pytest.param({"secret": {"secretName": "s", "defaultMode": 256}}, {"a": ("s", 256)}, id="a secret with rights"),
    pytest.param({"configMap": {"name": "no", "optional": True}}, {}, id="a map that need not be"),
    pytest.param({"secret": {"secretName": "no", "optional": True}}, {}, id="a secret that need not be"),
    pytest.param(
        {"secret": {"secretName": "s", "optional": True, "items": [{"key": "no", "path": "x"}]}}, {}, id="nor its key"
    ),
    pytest.param({"downwardAPI": {"items": [NAME, CPU]}}, {"name": ("p", MODE), "cpu": ("2", MODE)}, id="of the pod"),
    pytest.param(
        {"downwardAPI": {"defaultMode": 0, "items": [NAME, {**CPU, "mode": 1}]}}, {"name": ("p", 0), "cpu": ("2", 1)},
        id="of the pod with rights",
    ),
    pytest.param(projected(), {}, id="no sources"),
    pytest.param(
        projected({"configMap": {"name": "c"}}, {"configMap": {"name": "d"}}), {"a": ("1", MODE), "b": ("3", MODE)},
        id="two maps, the later one wins",
    ),
    pytest.param(
        projected({"secret": {"name": "s"}}, {"secret": {"name": "t"}}), {"a": ("s", MODE), "z": ("t", MODE)},
        id="two secrets",
    ),
    pytest.param(
        projected({"downwardAPI": {"items": [NAME]}}, {"downwardAPI": {"items": [CPU]}}, defaultMode=0),
        {"name": ("p", 0), "cpu": ("2", 0)}, id="twice of the pod",
    ),
    pytest.param(
        projected({"configMap": {"name": "d"}}, {"secret": {"name": "s"}}, {"downwardAPI": {"items": [NAME]}}),
        {"b": ("3", MODE), "a": ("s", MODE), "name": ("p", MODE)}, id="of each kind",
    ),
    pytest.param(
        projected(
            {"serviceAccountToken": {"path": "t", "audience": "one", "expirationSeconds": 3600}},
            {"serviceAccountToken": {"path": "u", "audience": "two", "expirationSeconds": 3600}},
            defaultMode=0,
        ),
        {"t": ("token", 0)}, id="a token, and one that is not there yet",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "want"), PAYLOADS)
def test_the_files_of_a_volume(volume: Json, want: dict[str, tuple[str, int]] | None) -> None:
    assert files(volume, one="token") == want


MISSING = [
    ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
    ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
    (projected({"configMap": {"name": "no"}}), 'configmap "no" not found'),
    (projected({"secret": {"name": "no"}}), 'secret "no" not found'),
    ({"configMap": {"name": "c", "items": [{"key": "z", "path": "x"}]}}, "non-existent config key: z"),
    (projected({"secret": {"name": "s", "items": [{"key": "z", "path": "x"}]}}), "non-existent config key: z"),
]


@pytest.mark.parametrize(("volume", "problem"), MISSING)
def test_a_volume_whose_object_is_missing(volume: Json, problem: str) -> None:
    with pytest.raises(ConfigProblem, match=problem):
        files(volume)


def container(name: str = "m", **members: Any) -> Json:
    return {"name": name, "image": "i", **members}


def variable(kind: str, name: str) -> Json:
    return {"name": "X", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": "k"}}}


REFERENCED = [
    pytest.param(pod(), set(), set(), id="none"),
    pytest.param(
        pod({"configMap": {"name": "c"}}, {"configMap": {"name": "d"}}), {"c", "d"}, set(), id="maps of volumes"
    ),
    pytest.param(
        pod({"secret": {"secretName": "s"}}, {"secret": {"secretName": "t"}}), set(), {"s", "t"},
        id="secrets of volumes",
    ),
    pytest.param(
        pod(projected({"configMap": {"name": "c"}}, {"configMap": {"name": "d"}}, {"secret": {"name": "s"}})),
        {"c", "d"}, {"s"}, id="of a projected volume",
    ),
    pytest.param(
        pod(projected({"secret": {"name": "s"}}), projected({"secret": {"name": "t"}}), {"emptyDir": {}}),
        set(), {"s", "t"}, id="of two projected volumes",
    ),
    pytest.param(
        pod(containers=[container(envFrom=[{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}])]),
        {"c"}, {"s"}, id="all of an object",
    ),
    pytest.param(
        pod(containers=[container(env=[variable("configMap", "c"), variable("secret", "s"), {"name": "Y"}])]),
        {"c"}, {"s"}, id="a key of an object",
    ),
    pytest.param(
        pod(
            initContainers=[container("i", env=[variable("secret", "s")])],
            containers=[
                container("a", env=[variable("configMap", "c")]),
                container("b", env=[variable("secret", "t")]),
            ],
        ),
        {"c"}, {"s", "t"}, id="of every container",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("made", "maps", "secrets"), REFERENCED)
def test_the_objects_that_a_pod_waits_for(made: Pod, maps: set[str], secrets: set[str]) -> None:
    assert referenced_objects(made) == (maps, secrets)


def test_a_directory_of_the_node_is_its_own_and_private(tmp_path: Path) -> None:
    path = tmp_path / "own"
    for _ in range(2):
        assert own_directory(str(path)) == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        path.chmod(0o755)


def test_a_directory_that_somebody_else_has_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(ConfigProblem, match="is not this node's own directory"):
            own_directory(str(tmp_path / name))
