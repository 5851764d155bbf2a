"""New pods get what the vertical autoscaler of their workload recommends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.core import ResourceRequirements
from strato.api.quantity import parse
from strato.api.recommended import follow
from strato.api.verticalautoscaling import ContainerPolicy
from tests.admission.reader import FakeWorld, admit

Json = dict[str, Any]
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
TARGET = {"cpu": "2", "memory": "1Gi"}


def vpa(mode: str | None = "Initial", target: Json = TARGET, reference: Json = DEPLOYMENT, **policy: Any) -> Json:
    policies = {"resourcePolicy": {"containerPolicies": [{"containerName": "*", **policy}]}} if policy else {}
    update = {} if mode is None else {"updatePolicy": {"updateMode": mode}}
    advice = [{"containerName": "main", "target": target}]
    return {
        "spec": {"targetRef": reference, **update, **policies},
        "status": {"recommendation": {"containerRecommendations": advice}},
    }


def pod(requests: Json, limits: Json | None = None, owner: Json | None = OWNER) -> Json:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return {
        "metadata": {"name": "x", "namespace": "default", **({"ownerReferences": [owner]} if owner else {})},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    }


def made(autoscaler: Json, new: Json, *limits: Json) -> Json:
    world = FakeWorld().add(catalog.VERTICALPODAUTOSCALER, "v", "default", **autoscaler)
    owner = {**DEPLOYMENT, "uid": "d", "controller": True}
    world.add(catalog.REPLICASET, "web-1", "default", metadata={"ownerReferences": [owner]})
    if limits:
        world.add(catalog.LIMITRANGE, "l", "default", spec={"limits": list(limits)})
    return admit(catalog.POD, new, world)


def resources(new: Json) -> Json:
    found: Json = new["spec"]["containers"][0]["resources"]
    return found


HALF = {"cpu": "1", "memory": "512Mi"}
PROPORTIONAL = ({"cpu": "2", "memory": "1Gi"}, {"cpu": "4", "memory": "2Gi"})


@pytest.mark.parametrize(
    ("autoscaler", "ranges", "requests", "limits", "notes"),
    [
        pytest.param(vpa(), (), *PROPORTIONAL, "", id="limits in proportion"),
        pytest.param(vpa(None), (), *PROPORTIONAL, "", id="mode Auto is the default"),
        pytest.param(vpa("InPlace"), (), *PROPORTIONAL, "", id="in place, from the start"),
        pytest.param(vpa("Off"), (), HALF, {"cpu": "2", "memory": "1Gi"}, None, id="off"),
        pytest.param(
            vpa(maxAllowed={"cpu": "1500m"}),
            (),
            {"cpu": "1500m", "memory": "1Gi"},
            {"cpu": "3", "memory": "2Gi"},
            "cpu capped to maxAllowed, ",
            id="maxAllowed",
        ),
        pytest.param(
            vpa(minAllowed={"memory": "2Gi"}),
            (),
            {"cpu": "2", "memory": "2Gi"},
            {"cpu": "4", "memory": "4Gi"},
            "memory capped to minAllowed, ",
            id="minAllowed",
        ),
        pytest.param(
            vpa(target={"cpu": "3", "memory": "1Gi"}, controlledValues="RequestsOnly"),
            (),
            {"cpu": "2", "memory": "1Gi"},
            {"cpu": "2", "memory": "1Gi"},
            "cpu capped to container limit, ",
            id="requests only, up to the limits",
        ),
        pytest.param(
            vpa(),
            ({"type": "Container", "max": {"cpu": "3"}},),
            {"cpu": "1500m", "memory": "1Gi"},
            {"cpu": "3", "memory": "2Gi"},
            "cpu capped to fit Max in container LimitRange, ",
            id="a LimitRange's most",
        ),
        pytest.param(
            vpa(target={"cpu": "100m"}),
            ({"type": "Container", "min": {"cpu": "500m"}},),
            {"cpu": "500m", "memory": "512Mi"},
            {"cpu": "1", "memory": "1Gi"},
            "cpu capped to fit Min in container LimitRange, ",
            id="its least",
        ),
        pytest.param(
            vpa(),
            ({"type": "Pod", "max": {"cpu": "2"}},),
            {"cpu": "1", "memory": "1Gi"},
            {"cpu": "2", "memory": "2Gi"},
            "",
            id="the whole pod's most",
        ),
        pytest.param(
            vpa(target={"cpu": "100m"}),
            ({"type": "Pod", "min": {"cpu": "400m"}},),
            {"cpu": "400m", "memory": "512Mi"},
            {"cpu": "800m", "memory": "1Gi"},
            "",
            id="the whole pod's least",
        ),
    ],
)
def test_a_new_pod_gets_what_is_recommended(
    autoscaler: Json, ranges: tuple[Json, ...], requests: Json, limits: Json, notes: str | None
) -> None:
    found = made(autoscaler, pod(dict(HALF), {"cpu": "2", "memory": "1Gi"}), *ranges)
    assert resources(found) == {"requests": requests, "limits": limits}
    annotations = found["metadata"].get("annotations") or {}
    if notes is None:
        assert "vpaUpdates" not in annotations
        return
    assert annotations["vpaObservedContainers"] == "main"
    assert annotations["vpaUpdates"].startswith(f"Pod resources updated by v: container 0: {notes}cpu request")


@pytest.mark.parametrize(
    ("new", "reference"),
    [
        pytest.param(pod(dict(HALF), owner=None), DEPLOYMENT, id="of nobody"),
        pytest.param(pod(dict(HALF), owner={**OWNER, "name": "other-1"}), DEPLOYMENT, id="of another"),
        pytest.param(pod(dict(HALF)), {**DEPLOYMENT, "apiVersion": "other.io/v1"}, id="of a kind of another group"),
        pytest.param(pod(dict(HALF)), {**DEPLOYMENT, "kind": "StatefulSet"}, id="of another kind"),
    ],
)
def test_other_pods_keep_what_they_ask_for(new: Json, reference: Json) -> None:
    found = made(vpa(reference=reference), new)
    assert resources(found) == {"requests": HALF}
    assert "annotations" not in found["metadata"]


def test_a_container_whose_mode_is_off_keeps_what_it_asks_for() -> None:
    autoscaler = vpa()
    autoscaler["spec"]["resourcePolicy"] = {"containerPolicies": [{"containerName": "main", "mode": "Off"}]}
    assert resources(made(autoscaler, pod(dict(HALF)))) == {"requests": HALF}


def test_the_oldest_of_two_autoscalers_counts() -> None:
    world = FakeWorld()
    for name, cpu, created in (("a", "3", "2026-02-01T00:00:00Z"), ("b", "2", "2026-01-01T00:00:00Z")):
        body = vpa(target={"cpu": cpu}, reference={"kind": "ReplicaSet", "name": "web-1"})
        world.add(catalog.VERTICALPODAUTOSCALER, name, "default", metadata={"creationTimestamp": created}, **body)
    found = admit(catalog.POD, pod({"cpu": "1"}), world)
    assert resources(found) == {"requests": {"cpu": "2"}}
    assert "updated by b:" in found["metadata"]["annotations"]["vpaUpdates"]


def test_a_pod_of_a_cron_job_is_found_by_its_name() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "nightly-29000000", "uid": "u", "controller": True}
    autoscaler = vpa(reference={"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly"})
    assert resources(made(autoscaler, pod({"cpu": "1"}, owner=owner)))["requests"]["cpu"] == "2"


AMOUNT = st.integers(1, 64_000)


@given(AMOUNT, AMOUNT, AMOUNT, st.one_of(st.none(), AMOUNT), st.booleans())
def test_a_limit_is_never_below_its_request(request: int, more: int, target: int, most: int | None, both: bool) -> None:
    asked = {"requests": {"cpu": f"{request}m"}, "limits": {"cpu": f"{request + more}m"}}
    policy = ContainerPolicy(controlled_values="RequestsAndLimits" if both else "RequestsOnly")
    bounds = {} if most is None else {"cpu": f"{most}m"}
    done = follow(msgspec.convert(asked, ResourceRequirements), {"cpu": f"{target}m"}, policy, most=bounds)
    limit = parse(done.limits.get("cpu", asked["limits"]["cpu"]))
    assert parse(done.requests["cpu"]) <= limit
    assert not both or most is None or limit <= parse(bounds["cpu"])
