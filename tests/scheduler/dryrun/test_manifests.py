"""Manifests of any quality: read, or refused with every problem and its place; never an exception of another kind."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strato.cli import states
from strato.errors import InvalidInput
from strato.scheduler.cache import kinds
from strato.scheduler.config import default_config, parse_config
from strato.scheduler.dryrun.manifests import Manifests, read_paths, read_text
from strato.scheduler.dryrun.run import dry_run, load
from strato.scheduler.dryrun.states import Header, latest_date, render, state_of
from strato.scheduler.model.plan import Failure
from tests.scheduler import worlds

Json = dict[str, Any]


def read(text: str) -> Manifests:
    found = Manifests()
    read_text(text, "f", found)
    return found


POD = "{kind: Pod, metadata: {name: %s}}"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param(
            "kind: Pod\napiVersion: v1\n---\nkind: Node\napiVersion: v1",
            ["f: document 1", "f: document 2"],
            id="several documents",
        ),
        pytest.param(
            "---\n---\nkind: Pod\napiVersion: v1\n", ["f: document 2"], id="empty documents count but hold nothing"
        ),
        pytest.param('{"kind": "Pod", "apiVersion": "v1"}', ["f: document 1"], id="JSON"),
        pytest.param(
            '{"kind": "Pod", "apiVersion": "v1"}\n---\n{"kind": "Node", "apiVersion": "v1"}',
            ["f: document 1", "f: document 2"],
            id="JSON in YAML",
        ),
        pytest.param("kind: List\nitems: [{kind: Pod, apiVersion: v1}]", ["f: document 1: items[0]"], id="a List"),
        pytest.param("kind: PodList\napiVersion: v1\nitems: [{}]", ["f: document 1: items[0]"], id="a typed list"),
        pytest.param(
            "- {kind: Pod, apiVersion: v1}\n- {kind: Node, apiVersion: v1}",
            ["f: document 1: [0]", "f: document 1: [1]"],
            id="a bare list",
        ),
    ],
)
def test_objects_are_found_wherever_they_are(text: str, where: list[str]) -> None:
    found = read(text)
    assert found.problems == []
    assert [place for place, _ in found.objects] == where


@pytest.mark.parametrize("between", ["", "\n", " \n\n\t "], ids=["nothing", "a line", "space"])
def test_json_documents_may_follow_one_another(between: str) -> None:
    one = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s"}}'
    found = read(f" {one % 'a'}{between}{one % 'b'}\n")
    assert found.problems == []
    assert [(where, obj["metadata"]["name"]) for where, obj in found.objects] == [
        ("f: document 1", "a"),
        ("f: document 2", "b"),
    ]
    assert read(f'{one % "a"}{{"a": NaN}}').problems


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        pytest.param("a: [", "f: document 1", "neither YAML nor JSON", id="broken YAML"),
        pytest.param(
            "kind: Pod\napiVersion: v1\n---\na: [",
            "f: document 2",
            "neither YAML nor JSON",
            id="broken second document",
        ),
        pytest.param("hello", "f: document 1", "is not an object but the text 'hello'", id="a bare word"),
        pytest.param("metadata: {}", "f: document 1: kind", "is missing", id="no kind"),
        pytest.param("kind: Pod", "f: document 1: apiVersion", "is missing", id="no apiVersion"),
        pytest.param(
            "kind: Unheard", "f: document 1: apiVersion", "is missing", id="an unknown kind without apiVersion"
        ),
        pytest.param("kind: 5", "f: document 1: kind", "is not a name", id="a kind that is a number"),
        pytest.param("kind: List\nitems: 5", "f: document 1: items", "is not a list", id="a list of nothing"),
        pytest.param("kind: Pod\nx: &a [*a]", "f: document 1", "unknown anchor", id="an alias to itself"),
        pytest.param("? [a]\n: b\nkind: Pod", "f: document 1", "neither YAML nor JSON", id="a list as key"),
        pytest.param("[" * 5000, "f: document 1", "", id="very deep"),
        pytest.param(
            "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60)) + "kind: Pod",
            "f: document 1",
            "aliasing",
            id="aliases that explode",
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, place: str, words: str) -> None:
    (problem,) = read(text).problems
    assert problem.where == place
    assert words in problem.message


def test_dates_stay_text_and_nulls_are_absent() -> None:
    ((_, obj),) = read("kind: Pod\nmetadata: {creationTimestamp: 2026-01-02T03:04:05Z, labels: null}").objects
    assert obj["metadata"] == {"creationTimestamp": "2026-01-02T03:04:05Z"}


def test_directories_are_read_by_name_and_everything_unreadable_is_listed(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("kind: Pod\napiVersion: v1")
    (tmp_path / "a.json").write_text('{"kind": "Node", "apiVersion": "v1"}')
    (tmp_path / "notes.txt").write_text("not looked at")
    (tmp_path / "c.yml").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").mkdir()
    found = read_paths([str(tmp_path), str(tmp_path / "absent"), str(tmp_path / "empty"), "a\0b"])
    assert [obj["kind"] for _, obj in found.objects] == ["Node", "Pod"]
    assert [Path(p.where).name for p in found.problems] == ["c.yml", "absent", "empty", "a\0b"]


def problems(*objects: Json) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as caught:
        load([(f"f: document {i}", obj) for i, obj in enumerate(objects, 1)])
    return [(p.where, p.message) for p in caught.value.problems]


def test_every_problem_of_every_object_has_its_path() -> None:
    pod = worlds.pod("p", cpu="lots", labels={"a": 1})
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = -5
    pod["spec"]["nodeSelector"] = ["x"]
    bare: Json = {"apiVersion": "v2", "kind": "Node", "metadata": {}}
    twice = worlds.queue("q"), worlds.queue("q")
    assert problems(pod, bare, *twice) == [
        ("f: document 1: metadata.labels.a", "must be text, not the number 1"),
        (
            "f: document 1: spec.containers[0].resources.requests.cpu",
            "must be a quantity such as 500m or 2Gi, not the text 'lots'",
        ),
        ("f: document 1: spec.containers[0].resources.requests.memory", "must not be negative: -5"),
        ("f: document 1: spec.nodeSelector", "must be an object, not a list"),
        ("f: document 2: apiVersion", "is the text 'v2'; the scheduler reads v1"),
        ("f: document 2: metadata.name", "is missing"),
        ("f: document 4: metadata.name", "Queue q is in f: document 3 too"),
    ]


LONELY: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "lonely",
        "namespace": "ns",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u"}],
        "annotations": {"volcano.sh/preemptable": "true"},
    },
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"volcano.sh/vgpu-number": 1}}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        "overhead": {"cpu": "1m"},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    },
}
REPLICA_SET: Json = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "rs", "namespace": "ns", "annotations": {"volcano.sh/preemptable": "true"}},
}
VERSIONS = {known.kind.name: known.kind.api_version for known in kinds.KINDS}
SMALL: list[Json] = [
    worlds.node("n", cpu="2", labels={"zone": "a"}, taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
    worlds.queue("q", 2, capability={"cpu": "4"}, deserved={"cpu": "1"}),
    worlds.group("g", 1, queue="q", minResources={"cpu": "1"}),
    worlds.pod("a", "g", tolerations=[{"operator": "Exists"}], nodeSelector={"zone": "a"}, priority=5),
    worlds.pod("b", "", nodeName="n", phase="Running"),
    {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10, "globalDefault": True},
    {"kind": "ResourceQuota", "metadata": {"name": "x", "namespace": "ns"}, "spec": {"hard": {"cpu": "3"}}},
    {"kind": "Namespace", "metadata": {"name": "ns", "labels": {"a": "b"}}},
    {"kind": "NodeShard", "metadata": {"name": "s"}, "spec": {"nodesDesired": ["n"]}},
    {
        "kind": "HyperNode",
        "metadata": {"name": "h"},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n"}}}]},
    },
    {
        "kind": "HyperNode",
        "metadata": {"name": "top"},
        "spec": {"tier": 2, "members": [{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "h.*"}}}]},
    },
    worlds.group("t", 1, phase="Pending", networkTopology={"mode": "hard", "highestTierAllowed": 1}),
    worlds.pod("t-0", "t", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]),
    worlds.pod("t-1", "t", resourceClaims=[{"name": "gpu", "resourceClaimName": "rc"}]),
    {
        "kind": "StorageClass",
        "metadata": {"name": "sc"},
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {
            "storageClassName": "sc",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    },
    {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "storageClassName": "sc",
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                    ]
                }
            },
        },
        "status": {"phase": "Available"},
    },
    {
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'd'"}}]},
    },
    {
        "kind": "ResourceSlice",
        "metadata": {"name": "rs"},
        "spec": {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "g0", "attributes": {"a": {"int": 1}}, "capacity": {"memory": {"value": "1Gi"}}}],
        },
    },
    {
        "kind": "ResourceClaim",
        "metadata": {"name": "rc", "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
    },
    {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": 1},
    },
    {
        "kind": "Numatopology",
        "metadata": {"name": "n"},
        "spec": {
            "policies": {"TopologyManagerPolicy": "none"},
            "numares": {"cpu": {"allocatable": "0-1", "capacity": 2}},
        },
    },
]
for _obj in SMALL:
    _obj.setdefault("apiVersion", VERSIONS[_obj["kind"]])
SMALL += [LONELY, REPLICA_SET]
EVERYTHING = """
actions: 'enqueue, allocate, backfill, gangpreempt, gangreclaim, preempt, reclaim, shuffle'
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}, {name: cdp}, {name: sla}, {name: tdm}]
- plugins:
  - {name: drf}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
  - {name: overcommit}
  - {name: resourcequota}
  - {name: nodegroup}
  - {name: network-topology-aware}
"""
OTHERS = """
actions: 'enqueue, reclaim, allocate, backfill, preempt, shuffle'
configurations: [{name: preempt, arguments: {enableTopologyAwarePreemption: true}}]
tiers:
- plugins: [{name: priority}, {name: gang, enableReclaimable: false}, {name: easy}]
- plugins:
  - {name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}
  - {name: predicates}
  - {name: task-topology}
  - {name: numa-aware}
  - {name: usage}
  - {name: rescheduling}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true, deviceshare.ScheduleWeight: 10}}
  - name: resource-strategy-fit
    arguments: {sra: {enable: true, resources: cpu}, proportional: {enable: true, resources: nvidia.com/gpu}}
"""
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["-1", "1e30", "1Ei", "", "0x1", "NaN", "9" * 40, 2**63, -(2**63), 1e300, float("inf")]),
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=4), v, max_size=2))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        found += places(part, (*path, key))
    return found


PLACES = [place for place in places(SMALL) if place]


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_manifests_with_anything_in_any_place_run_or_are_refused(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    objects: Any = copy.deepcopy(SMALL)
    for place, value in changes:
        holder = objects
        try:
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    found = read(yaml.safe_dump(objects))
    failures: list[Failure] = []
    for config in (default_config(), parse_config(EVERYTHING), parse_config(OTHERS)):
        try:
            world, _ = states.prepare(state_of(found), Header())
        except InvalidInput:
            return
        json.dumps(dry_run(world, config, cycles=2, failures=failures), allow_nan=False)
    assert failures == []


@settings(max_examples=150, deadline=None)
@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("{}[]:-&*!|>'\"\n \t#%@`"), max_size=60)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    read(text)


def test_a_saved_state_reads_back_as_it_was() -> None:
    objects = [(f"f: document {i}", obj) for i, obj in enumerate(SMALL)]
    header = Header(config="actions: allocate", seed=7, cycles=3, now=5.5)
    found = read(render(objects, header).decode())
    state = state_of(found)
    assert not state.problems
    assert state.header == header
    assert [obj for _, obj in state.objects] == SMALL


def test_the_newest_date_is_the_present() -> None:
    dated = [{"metadata": {"creationTimestamp": text}} for text in ("2026-01-01T00:00:00Z", "bad", 5)]
    assert latest_date([("", obj) for obj in dated]) == 1767225600.0


def test_python_can_hash_what_it_wants(tmp_path: Path) -> None:
    """Decisions do not depend on the order of sets."""
    world = [worlds.node(f"n{i}") for i in range(7)] + [worlds.group(f"g{i}", 2) for i in range(5)]
    world += [worlds.pod(f"p{i}-{j}", f"g{i}", cpu="1") for i in range(5) for j in range(4)]
    state = tmp_path / "state.json"
    state.write_bytes(render([("", obj) for obj in world], Header(cycles=2, seed=3)))
    code = (
        "import json, sys\n"
        "from strato.scheduler.dryrun.manifests import read_paths\n"
        "from strato.scheduler.dryrun.states import state_of\n"
        "from strato.scheduler.dryrun.run import dry_run, load\n"
        "from strato.scheduler.config import default_config\n"
        "s = state_of(read_paths(sys.argv[1:]))\n"
        "print(json.dumps(dry_run(load(s.objects), default_config(), cycles=s.header.cycles, seed=s.header.seed)))"
    )
    outs = {
        subprocess.run(
            [sys.executable, "-c", code, str(state)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outs) == 1
    assert b'"pod": "ns/p0-0"' in outs.pop()
