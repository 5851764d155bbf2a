"""Tables: what kubectl users see."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.kinds import Column, Kind
from strato.server import tables
from strato.server.tables.custom import compile_path
from strato.server.tables.pods import pod_status

NOW = 1_767_225_700.0  # 2026-01-01T00:01:40Z
CREATED = "2026-01-01T00:00:00Z"


def cells(kind: Kind, obj: dict[str, Any]) -> list[Any]:
    obj.setdefault("metadata", {"name": "x", "creationTimestamp": CREATED})
    table = tables.render(kind, [obj], list_meta={}, include_object="None", now=NOW)
    row: list[Any] = table["rows"][0]["cells"]
    assert len(row) == len(table["columnDefinitions"])
    return row


def state(**member: Any) -> dict[str, Any]:
    return {"name": "c", "ready": "running" in member, "restartCount": 0, "state": member}


INIT = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}
SIDECAR = {"initContainers": [{"name": "i", "restartPolicy": "Always"}], "containers": [{"name": "c"}]}
STATUSES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("phase alone", {}, {"phase": "Pending"}, "Pending"),
    ("the pod's own reason", {}, {"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    (
        "a waiting container",
        {},
        {"phase": "Pending", "containerStatuses": [state(waiting={"reason": "ErrImagePull"})]},
        "ErrImagePull",
    ),
    (
        "an exit code without a reason",
        {},
        {"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 3})]},
        "ExitCode:3",
    ),
    (
        "a signal",
        {},
        {"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 137, "signal": 9})]},
        "Signal:9",
    ),
    (
        "completed",
        {},
        {"phase": "Succeeded", "containerStatuses": [state(terminated={"exitCode": 0, "reason": "Completed"})]},
        "Completed",
    ),
    (
        "one completed, one running, not ready",
        {},
        {
            "phase": "Running",
            "containerStatuses": [state(terminated={"exitCode": 0, "reason": "Completed"}), state(running={})],
        },
        "NotReady",
    ),
    (
        "initializing",
        INIT,
        {"phase": "Pending", "initContainerStatuses": [{**state(running={}), "name": "i"}]},
        "Init:0/1",
    ),
    (
        "init failed",
        INIT,
        {
            "phase": "Pending",
            "initContainerStatuses": [{**state(terminated={"exitCode": 1, "reason": "Error"}), "name": "i"}],
        },
        "Init:Error",
    ),
    (
        "a started sidecar does not hold up",
        SIDECAR,
        {
            "phase": "Running",
            "initContainerStatuses": [{**state(running={}), "name": "i", "started": True}],
            "containerStatuses": [state(running={})],
        },
        "Running",
    ),
    (
        "gated",
        {},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        "SchedulingGated",
    ),
]


@pytest.mark.parametrize(("spec", "status", "want"), [s[1:] for s in STATUSES], ids=[s[0] for s in STATUSES])
def test_pod_status(spec: dict[str, Any], status: dict[str, Any], want: str) -> None:
    assert pod_status({"metadata": {"name": "p"}, "spec": spec, "status": status}) == want


def test_a_deleted_pod_is_terminating() -> None:
    assert pod_status({"metadata": {"deletionTimestamp": CREATED}, "status": {"phase": "Running"}}) == "Terminating"


def test_pod_row_counts_containers_and_restarts() -> None:
    running = {
        **state(running={}),
        "restartCount": 2,
        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:30Z"}},
    }
    spec = {"containers": [{"name": "c"}, {"name": "d"}], "nodeName": "n"}
    row = cells(
        catalog.POD, {"spec": spec, "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running]}}
    )
    assert row == ["x", "1/2", "Running", "2 (70s ago)", "100s", "10.0.0.1", "n", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("ports", "shown"),
    [([{"port": 80}, {"name": "any"}], "80,any"), ([{"name": "", "protocol": "TCP"}], "<unset>"), ([], "<unset>")],
)
def test_endpoint_slices_show_their_ports_by_number_or_name(ports: list[dict[str, Any]], shown: str) -> None:
    slice_ = {"addressType": "IPv4", "ports": ports, "endpoints": [{"addresses": ["10.1.2.3"]}]}
    assert cells(catalog.ENDPOINTSLICE, slice_)[1:4] == ["IPv4", shown, "10.1.2.3"]


def test_node_row() -> None:
    node = {
        "metadata": {"name": "n", "creationTimestamp": CREATED, "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
    }
    assert cells(catalog.NODE, node)[:5] == ["n", "Ready,SchedulingDisabled", "worker", "100s", "v1"]


@pytest.mark.parametrize("kind", [*catalog.BUILTIN, *catalog.CUSTOM], ids=lambda kind: kind.resource)
def test_every_kind_renders_an_empty_object(kind: Kind) -> None:
    assert cells(kind, {})


def test_custom_columns_follow_their_type() -> None:
    columns = (
        Column("Weight", ".spec.weight", "integer"),
        Column("State", ".status.state"),
        Column("Kinds", ".spec.items[*].kind"),
        Column("Since", ".status.since", "date"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    )
    kind = Kind("g", "v1", "K", "ks", columns=columns)
    obj = {"spec": {"weight": 3, "items": [{"kind": "a"}, {"kind": "b"}]}, "status": {"since": CREATED}}
    assert cells(kind, obj) == ["x", 3, None, "a,b", "100s", "100s"]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".a.b", [1]),
        (".l[0].n", ["x"]),
        (".l[-1].n", ["y"]),
        (".l[-1:].n", ["y"]),
        (".l[:1].n", ["x"]),
        (".l[*].n", ["x", "y"]),
        ('.l[?(@.n=="y")].v', [2]),
        (".m['a/b']", [3]),
        ("..v", [1, 2]),
        (".a..", []),
        (".none.b", []),
    ],
)
def test_json_paths(path: str, want: list[Any]) -> None:
    obj = {"a": {"b": 1}, "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "m": {"a/b": 3}}
    assert compile_path(path)(obj) == want


@pytest.mark.parametrize(
    ("include", "want"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")]
)
def test_rows_carry_what_was_asked_for(include: str, want: str | None) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    table = tables.render(catalog.POD, [pod], list_meta={"resourceVersion": "7"}, include_object=include, now=NOW)
    assert (table["rows"][0]["object"] or {}).get("kind") == want
    assert table["metadata"] == {"resourceVersion": "7"}


def test_paths_of_columns_are_bounded() -> None:
    """Each descent multiplies what the one before found: eight of them in a nesting of 100 found nobody's lifetime."""
    value: dict[str, Any] = {}
    for _ in range(100):
        value = {"a": value}
    assert len(compile_path("..a")(value)) == 100
    for path in ("..a" * 8, "[" + "9" * 5000 + "]", ".a" * 1000):
        assert compile_path(path)(value) == []
