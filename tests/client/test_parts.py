"""Parts of pods that are equal are one object, and pods are what they are without that."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.core import Pod
from strato.client.codec import codec_of
from strato.errors import InternalError


def running(number: int, **more: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "busybox",
        "imageID": "busybox",
        "containerID": f"hollow://{number}",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {},
        "ready": True,
        "allocatedResources": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "metadata": {
            "name": f"p-{number}",
            "namespace": "default",
            "uid": f"u-{number}",
            "resourceVersion": str(number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "a-label-of-all", "index": str(number)},
            "annotations": {"group": "a-group-of-all"},
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": "x", "controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "busybox"}]},
        "status": {
            "phase": "Running",
            "hostIP": "172.16.0.1",
            "podIP": f"10.0.0.{number}",
            "podIPs": [{"ip": f"10.0.0.{number}"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "containerStatuses": [container],
            **more,
        },
    }


def decoded(body: dict[str, Any]) -> Pod:
    pod: Pod = codec_of(Pod).decode_object(json.dumps(body).encode())
    return pod


def test_pods_share_what_is_equal() -> None:
    one, other = decoded(running(1)), decoded(running(2))
    for path in (
        "metadata.namespace",
        "metadata.annotations",
        "metadata.owner_references",
        "metadata.creation_timestamp",
        "status.conditions",
        "status.phase",
        "status.host_ip",
    ):
        holder, name = path.split(".")
        assert getattr(getattr(one, holder), name) is getattr(getattr(other, holder), name), path
    first, second = one.status.container_statuses[0], other.status.container_statuses[0]
    for name in ("state", "last_state", "allocated_resources", "resources", "image", "image_id"):
        assert getattr(first, name) is getattr(second, name), name
    assert one.metadata.labels != other.metadata.labels
    assert one.metadata.labels is not None
    assert other.metadata.labels is not None
    assert one.metadata.labels["app"] is other.metadata.labels["app"]
    assert one.status.pod_ips[0].ip is one.status.pod_ip


def test_pods_that_wait_in_the_same_way_share_their_status() -> None:
    waits = {"containerStatuses": [], "phase": "Pending"}
    assert decoded(running(1, **waits)).status is decoded(running(1, **waits)).status
    assert decoded(running(1, **waits)).status != decoded(running(1, **waits, reason="Held")).status


TEXT = st.text(max_size=4)
TEXTS = st.none() | st.dictionaries(TEXT, TEXT, max_size=3)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT,
        "generateName": TEXT,
        "namespace": TEXT,
        "uid": TEXT,
        "resourceVersion": TEXT,
        "generation": st.integers(0, 9),
        "creationTimestamp": st.none() | TEXT,
        "deletionTimestamp": st.none() | TEXT,
        "deletionGracePeriodSeconds": st.none() | st.integers(0, 9),
        "labels": TEXTS,
        "annotations": TEXTS,
        "finalizers": st.none() | st.lists(TEXT, max_size=2),
        "ownerReferences": st.none() | st.lists(st.fixed_dictionaries({"uid": TEXT}), max_size=2),
    },
)
REASON = st.none() | st.fixed_dictionaries({"reason": TEXT})
STATE = st.fixed_dictionaries({}, optional={"waiting": REASON, "terminated": REASON})
CONTAINER = st.fixed_dictionaries(
    {"name": TEXT},
    optional={
        "state": STATE,
        "lastState": STATE,
        "ready": st.booleans(),
        "started": st.none() | st.booleans(),
        "restartCount": st.integers(0, 9),
        "image": TEXT,
        "containerID": TEXT,
        "allocatedResources": st.dictionaries(TEXT, TEXT | st.integers(0, 9), max_size=2),
        "resources": st.none() | st.fixed_dictionaries({}, optional={"requests": st.dictionaries(TEXT, TEXT)}),
    },
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(("Pending", "Running", "Failed")) | TEXT,
        "message": TEXT,
        "reason": TEXT,
        "podIP": TEXT,
        "podIPs": st.lists(st.fixed_dictionaries({"ip": TEXT}), max_size=2),
        "startTime": st.none() | TEXT,
        "conditions": st.lists(st.fixed_dictionaries({"type": TEXT, "status": TEXT}), max_size=2),
        "containerStatuses": st.lists(CONTAINER, max_size=2),
        "initContainerStatuses": st.lists(CONTAINER, max_size=1),
        "nominatedNodeName": TEXT,
        "observedGeneration": st.integers(0, 9),
    },
)


@given(st.fixed_dictionaries({"metadata": METADATA, "status": STATUS}))
def test_a_pod_is_what_it_is_without_sharing(body: dict[str, Any]) -> None:
    plain = msgspec.convert({"apiVersion": "v1", "kind": "Pod", **body}, Pod)
    assert decoded(body) == plain
    assert decoded(body) == plain, "the second time too"


@pytest.mark.parametrize("part", [{"labels": 5}, {"ownerReferences": {}}, {"annotations": {"a": 1}}])
def test_a_part_that_does_not_fit_leaves_the_pod_out(part: dict[str, Any]) -> None:
    body = json.dumps({"metadata": {"name": "p", **part}}).encode()
    with pytest.raises(InternalError):
        codec_of(Pod).decode_object(body)
    page = codec_of(Pod).decode_list(b'{"metadata": {}, "items": [%s, {"metadata": {"name": "good"}}]}' % body)
    assert [pod.metadata.name for pod in page.items] == ["good"]
