"""StatefulSets, DaemonSets, disruption budgets and quotas on the embedded cluster."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from strato.api import catalog
from strato.api.apps import ControllerRevision, DaemonSet, RollingUpdate, StatefulSet, StatefulSetSpec, UpdateStrategy
from strato.api.core import Node, PersistentVolumeClaim, Pod, PodSpec, ResourceQuota, Taint, Toleration
from strato.api.core.affinity import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from strato.api.core.config import ResourceQuotaSpec
from strato.api.core.node import NodeSpec
from strato.api.core.pod import PodStatus
from strato.api.meta import Condition, ObjectMeta
from strato.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from strato.api.quotas import counts_pod
from strato.client.informer import Change, Informers
from strato.controllers.kube.daemonsetplan import DaemonSetPlan, Rollout, fits
from strato.controllers.kube.disruptions import desired_healthy
from strato.controllers.kube.revisions import REVISION_LABEL, revision_hash
from strato.controllers.kube.statefulsets import Slot, plan
from tests.controllers.world import World, play


def template(seconds: float | None = None, image: str = "i", **spec: Any) -> dict[str, Any]:
    annotations = {} if seconds is None else {"test/seconds": str(seconds)}
    return {
        "metadata": {"labels": {"app": "a"}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}], **spec},
    }


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template(), **spec},
    }


# StatefulSets


def slot(
    ordinal: int, revision: str = "new", *, healthy: bool = True, is_terminating: bool = False, phase: str = "Running"
) -> Slot:
    meta = ObjectMeta(name=f"s-{ordinal}", uid=f"u{ordinal}", labels={REVISION_LABEL: revision})
    return Slot(
        ordinal, Pod(metadata=meta, status=PodStatus(phase=phase)), is_terminating, healthy and not is_terminating
    )


def spec(
    replicas: int = 3, policy: str = "OrderedReady", partition: int = 0, strategy: str = "RollingUpdate"
) -> StatefulSetSpec:
    update = UpdateStrategy(type=strategy, rolling_update=RollingUpdate(partition=partition))
    return StatefulSetSpec(replicas=replicas, pod_management_policy=policy, update_strategy=update)


@pytest.mark.parametrize(
    ("wanted", "slots", "create", "delete"),
    [
        pytest.param(spec(), [], [0], [], id="the first comes first"),
        pytest.param(spec(), [slot(0, healthy=False)], [], [], id="the next waits for it"),
        pytest.param(spec(), [slot(0), slot(2)], [1], [], id="a gap is filled"),
        pytest.param(spec(policy="Parallel"), [slot(1, healthy=False)], [0, 2], [], id="parallel ones do not wait"),
        pytest.param(spec(1), [slot(0), slot(1), slot(2)], [], [2], id="the last goes first"),
        pytest.param(
            spec(1), [slot(0), slot(1), slot(2, is_terminating=True)], [], [], id="the next waits until it is gone"
        ),
        pytest.param(spec(0), [slot(0), slot(1, healthy=False)], [], [1], id="an unhealthy one may go"),
        pytest.param(
            spec(0), [slot(0, healthy=False), slot(1, healthy=False)], [], [], id="of several unhealthy ones none goes"
        ),
        pytest.param(spec(1, "Parallel"), [slot(0), slot(1), slot(2)], [], [2, 1], id="parallel ones go together"),
        pytest.param(
            spec(2), [slot(0), slot(1, phase="Failed", healthy=False)], [], [1], id="a failed one is replaced"
        ),
        pytest.param(spec(2), [slot(0, "old"), slot(1, "old")], [], [1], id="an update begins at the end"),
        pytest.param(spec(2), [slot(0, "old"), slot(1, healthy=False)], [], [], id="and waits for each"),
        pytest.param(spec(2), [slot(0, "old"), slot(1)], [], [0], id="and ends at the beginning"),
        pytest.param(spec(2, partition=1), [slot(0, "old"), slot(1)], [], [], id="or at the partition"),
        pytest.param(spec(2, strategy="OnDelete"), [slot(0, "old"), slot(1, "old")], [], [], id="or does not begin"),
    ],
)
def test_stateful_plan(wanted: StatefulSetSpec, slots: list[Slot], create: list[int], delete: list[int]) -> None:
    planned = plan(wanted, slots, "new")
    assert planned.create == create
    assert [p.metadata.name for p in planned.delete] == [f"s-{n}" for n in delete]


STATEFUL = ("kube-statefulset-controller", "kube-garbage-collector")


def test_a_stateful_set_comes_changes_and_shrinks_in_order() -> None:
    async def scenario(world: World) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        body = workload("StatefulSet", replicas=3, serviceName="svc", volumeClaimTemplates=[claim])
        await world.cluster.create(catalog.STATEFULSET, body, "default")
        await world.settle(10)
        pods = await world.pods()
        assert sorted(pods) == ["s-0", "s-1", "s-2"]
        revisions = [int(pods[f"s-{n}"].metadata.resource_version) for n in range(3)]
        assert revisions == sorted(revisions)
        one = pods["s-1"]
        assert (one.spec.hostname, one.spec.subdomain) == ("s-1", "svc")
        assert one.metadata.label("statefulset.kubernetes.io/pod-name") == "s-1"
        assert [v.name for v in one.spec.volumes if v.persistent_volume_claim] == ["data"]
        claims = (await world.cluster.list(PersistentVolumeClaim, "default")).items
        assert sorted(c.metadata.name for c in claims) == ["data-s-0", "data-s-1", "data-s-2"]
        seen = await world.cluster.get(StatefulSet, "s", "default")
        assert (seen.status.ready_replicas, seen.status.current_revision) == (3, seen.status.update_revision)
        before = seen.status.current_revision

        await world.cluster.patch(catalog.STATEFULSET, "s", "default", {"spec": {"template": template(image="new")}})
        await world.settle(20)
        assert {p.spec.containers[0].image for p in (await world.pods()).values()} == {"new"}
        seen = await world.cluster.get(StatefulSet, "s", "default")
        assert seen.status.current_revision == seen.status.update_revision != before
        assert len((await world.cluster.list(ControllerRevision, "default")).items) == 2

        await world.cluster.patch(catalog.STATEFULSET, "s", "default", {"spec": {"replicas": 1}})
        await world.settle(10)
        assert sorted(await world.pods()) == ["s-0"]
        assert len((await world.cluster.list(PersistentVolumeClaim, "default")).items) == 3

    play(scenario, enabled=STATEFUL)


def test_pods_below_the_partition_keep_their_template_when_made_anew() -> None:
    async def scenario(world: World) -> None:
        update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await world.cluster.create(
            catalog.STATEFULSET, workload("StatefulSet", replicas=2, updateStrategy=update), "default"
        )
        await world.settle(10)
        await world.cluster.patch(catalog.STATEFULSET, "s", "default", {"spec": {"template": template(image="new")}})
        await world.settle(10)
        await world.cluster.delete(catalog.POD, "s-0", "default")
        await world.settle(10)
        images = {name: p.spec.containers[0].image for name, p in (await world.pods()).items()}
        assert images == {"s-0": "i", "s-1": "new"}

    play(scenario, enabled=STATEFUL)


# DaemonSets


def node(*taints: Taint, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name="n", labels=labels), spec=NodeSpec(taints=taints))


def affine(operator: str, *values: str) -> PodSpec:
    requirement = NodeSelectorRequirement(key="size", operator=operator, values=values)
    terms = (NodeSelectorTerm(match_expressions=(requirement,)),)
    return PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=terms))))


NO_SCHEDULE, NO_EXECUTE = Taint(key="k", effect="NoSchedule"), Taint(key="k", effect="NoExecute")
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@pytest.mark.parametrize(
    ("pod", "on", "wanted"),
    [
        pytest.param(PodSpec(), node(), (True, True), id="any node"),
        pytest.param(PodSpec(node_selector={"a": "b"}), node(a="c"), (False, False), id="another label"),
        pytest.param(PodSpec(), node(CORDONED), (True, True), id="cordoned nodes too"),
        pytest.param(PodSpec(), node(NO_SCHEDULE), (False, True), id="a taint for new ones only"),
        pytest.param(PodSpec(), node(NO_EXECUTE), (False, False), id="a taint for all"),
        pytest.param(
            PodSpec(tolerations=(Toleration(operator="Exists"),)), node(NO_EXECUTE), (True, True), id="bears all"
        ),
        pytest.param(affine("Gt", "4"), node(size="5"), (True, True), id="greater than"),
        pytest.param(affine("In", "4"), node(size="5"), (False, False), id="not in"),
        pytest.param(PodSpec(node_name="other"), node(), (False, False), id="bound elsewhere"),
    ],
)
def test_fits(pod: PodSpec, on: Node, wanted: tuple[bool, bool]) -> None:
    assert fits(pod, on) == wanted


def daemon(name: str) -> Pod:
    """Return a daemon: "o" or "n" (old, new), "+" where it works, and a number that tells it from others there."""
    meta = ObjectMeta(name=name, uid=name, labels={REVISION_LABEL: "new" if name[0] == "n" else "old"})
    return Pod(metadata=meta)


@pytest.mark.parametrize(
    ("pods", "surge", "unavailable", "deleted", "made"),
    [
        pytest.param("o+1 / o+2", 1, 0, "", "a", id="one new pod beside an old one at a time"),
        pytest.param("o+1 / o+2", 2, 0, "", "ab", id="as many as may be"),
        pytest.param("o1 / o+2", 1, 0, "", "ab", id="an old pod that does not work counts for nothing"),
        pytest.param("o+1 n1 / o+2", 1, 0, "", "", id="until the new one works"),
        pytest.param("o+1 n+1 / o+2", 1, 0, "o+1", "b", id="then the old one goes, and the next comes"),
        pytest.param("n+1 / n2", 1, 0, "", "", id="all are new"),
        pytest.param("o+1 o+3 / o+2", 1, 0, "", "", id="what is too many goes first"),
        pytest.param("o+1 / / x: o+3", 1, 0, "", "a", id="where it should not run it waits for others"),
        pytest.param("n+1 / n+2 / x: o+3", 1, 0, "o+3", "", id="and goes when they work"),
        pytest.param("n1 / n2 / x: o3", 1, 0, "o3", "", id="or at once where it does not work"),
        pytest.param("o+1 / o+2", 0, 1, "o+1", "", id="without a surge an old one goes first"),
        pytest.param("o1 / o+2", 0, 1, "o1", "", id="one that does not work before others"),
        pytest.param("n1 / o+2", 0, 1, "", "", id="and none while a new one does not work"),
    ],
)
def test_old_daemons_are_replaced(pods: str, surge: int, unavailable: int, deleted: str, made: str) -> None:
    here: dict[str, list[Pod]] = {}
    for node_name, text in zip("abx", pods.split("/"), strict=False):
        if names := text.replace("x:", "").split():
            here[node_name] = [daemon(name) for name in names]
    rollout = Rollout("new", surge, unavailable, lambda pod: "+" in pod.metadata.name)
    steps = rollout.plan(DaemonSetPlan(desired=2, suitable={"a", "b"}), here)
    assert [pod.metadata.name for pod in steps.delete] == deleted.split()
    assert steps.create == list(made)


async def add_node(world: World, name: str, **labels: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    await world.cluster.create(catalog.NODE, body)


async def nodes_of_pods(world: World) -> list[str]:
    return sorted(p.spec.node_name for p in (await world.pods()).values())


def test_daemons_follow_the_nodes() -> None:
    async def scenario(world: World) -> None:
        for name in ("n1", "n2", "n3"):
            await add_node(world, name, pool="x" if name != "n3" else "y")
        body = workload("DaemonSet", template=template(nodeSelector={"pool": "x"}))
        await world.cluster.create(catalog.DAEMONSET, body, "default")
        await world.settle(5)
        assert await nodes_of_pods(world) == ["n1", "n2"]
        await world.cluster.patch(catalog.NODE, "n3", "", {"metadata": {"labels": {"pool": "x"}}})
        await world.cluster.delete(catalog.NODE, "n1")
        await world.settle(5)
        assert await nodes_of_pods(world) == ["n2", "n3"]
        seen = await world.cluster.get(DaemonSet, "s", "default")
        numbers = (seen.status.desired_number_scheduled, seen.status.current_number_scheduled, seen.status.number_ready)
        assert numbers == (2, 2, 2)
        new = {"spec": {"template": template(image="new", nodeSelector={"pool": "x"})}}
        await world.cluster.patch(catalog.DAEMONSET, "s", "default", new)
        await world.settle(20)
        assert {p.spec.containers[0].image for p in (await world.pods()).values()} == {"new"}
        assert await nodes_of_pods(world) == ["n2", "n3"]

    play(scenario, enabled=("kube-daemonset-controller",))


# Disruption budgets


@pytest.mark.parametrize(
    ("least", "most", "expected", "wanted"),
    [(2, None, 5, 2), ("50%", None, 5, 3), (None, 1, 5, 4), (None, "30%", 10, 7), (None, 9, 5, 0), (None, None, 5, 0)],
)
def test_desired_healthy(least: int | str | None, most: int | str | None, expected: int, wanted: int) -> None:
    assert desired_healthy(PodDisruptionBudgetSpec(min_available=least, max_unavailable=most), expected) == wanted


@pytest.mark.parametrize(
    ("budget", "allowed"), [({"minAvailable": 2}, 1), ({"maxUnavailable": "50%"}, 2), ({"minAvailable": 4}, 0)]
)
def test_a_budget_says_how_many_pods_may_go(budget: dict[str, Any], allowed: int) -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.STATEFULSET, workload("StatefulSet", replicas=3), "default")
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, **budget},
        }
        await world.cluster.create(catalog.PODDISRUPTIONBUDGET, body, "default")
        await world.settle(10)
        seen = (await world.cluster.get(PodDisruptionBudget, "b", "default")).status
        assert (seen.expected_pods, seen.current_healthy, seen.disruptions_allowed) == (3, 3, allowed)
        assert [(c.type, c.status) for c in seen.conditions] == [("DisruptionAllowed", str(allowed > 0))]

    play(scenario, enabled=("kube-disruption-controller", "kube-statefulset-controller"))


# Quotas


@pytest.mark.parametrize(
    ("scopes", "pod", "counts"),
    [
        pytest.param((), PodSpec(), True, id="no scope"),
        pytest.param(("BestEffort",), PodSpec(), True, id="best effort"),
        pytest.param(("NotBestEffort",), PodSpec(), False, id="not best effort"),
        pytest.param(("Terminating",), PodSpec(active_deadline_seconds=1), True, id="with a deadline"),
        pytest.param(("NotTerminating", "BestEffort"), PodSpec(active_deadline_seconds=1), False, id="all must hold"),
        pytest.param(("PriorityClass",), PodSpec(priority_class_name="p"), True, id="any priority class"),
    ],
)
def test_quota_scopes(scopes: tuple[str, ...], pod: PodSpec, counts: bool) -> None:
    assert counts_pod(ResourceQuotaSpec(scopes=scopes), Pod(spec=pod)) is counts
    ended = Pod(spec=pod, status=PodStatus(phase="Failed", conditions=(Condition(),)))
    assert not counts_pod(ResourceQuotaSpec(scopes=scopes), ended)


def test_a_quota_says_what_is_used() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.STATEFULSET, workload("StatefulSet", replicas=3), "default")
        hard = {
            "pods": "10",
            "requests.cpu": "4",
            "count/statefulsets.apps": "2",
            "services": "1",
            "requests.ephemeral-storage": "1Gi",
        }
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
        await world.cluster.create(catalog.RESOURCEQUOTA, body, "default")
        await world.settle(10)
        seen = (await world.cluster.get(ResourceQuota, "q", "default")).status
        assert dict(seen.hard) == hard
        services = dict(seen.used).pop("services")
        assert dict(seen.used) == {
            "pods": "3",
            "requests.cpu": "3",
            "count/statefulsets.apps": "1",
            "requests.ephemeral-storage": "0",
            "services": services,
        }
        await world.cluster.patch(catalog.STATEFULSET, "s", "default", {"spec": {"replicas": 1}})
        await world.cluster.patch(catalog.RESOURCEQUOTA, "q", "default", {"spec": {"hard": {"services": None}}})
        await world.settle(20)
        seen = (await world.cluster.get(ResourceQuota, "q", "default")).status
        assert (seen.used["pods"], seen.used["requests.cpu"]) == ("1", "1")
        assert "services" not in seen.hard
        assert "services" not in seen.used

    play(scenario, enabled=("kube-resourcequota-controller", "kube-statefulset-controller"))


# Adoption


SETS = ("kube-replicaset-controller", "kube-statefulset-controller", "kube-daemonset-controller", "kube-job-controller")


def test_orphans_are_adopted_and_strangers_released() -> None:
    def bare(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", **template(), "metadata": {"name": name, "labels": {"app": "a"}}}

    async def owner_of(world: World, name: str) -> str:
        controller = (await world.pods())[name].metadata.controller
        return controller.name if controller is not None else ""

    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.POD, bare("before"), "default")
        await world.cluster.create(catalog.REPLICASET, workload("ReplicaSet", replicas=2), "default")
        await world.settle()
        assert await owner_of(world, "before") == "s"
        assert len(await world.pods()) == 2
        await world.cluster.patch(Pod, "before", "default", {"metadata": {"labels": {"app": "other"}}})
        await world.settle()
        assert await owner_of(world, "before") == ""
        assert len(await world.pods()) == 3
        await world.cluster.patch(catalog.REPLICASET, "s", "default", {"spec": {"replicas": 3}})
        await world.cluster.patch(Pod, "before", "default", {"metadata": {"labels": {"app": "a"}}})
        await world.settle()
        assert await owner_of(world, "before") == "s"
        assert len(await world.pods()) == 3

    play(scenario, enabled=SETS)


def test_a_stateful_set_adopts_only_pods_that_are_called_like_its_own() -> None:
    async def scenario(world: World) -> None:
        for name in ("s-0", "other-1"):
            body = {"apiVersion": "v1", "kind": "Pod", **template(), "metadata": {"name": name, "labels": {"app": "a"}}}
            await world.cluster.create(catalog.POD, body, "default")
        await world.settle()
        await world.cluster.create(catalog.STATEFULSET, workload("StatefulSet", serviceName="x"), "default")
        await world.settle()
        owners = {name: pod.metadata.controller is not None for name, pod in (await world.pods()).items()}
        assert owners == {"s-0": True, "other-1": False}

    play(scenario, enabled=SETS)


# Revisions


def test_a_revision_is_named_as_kubernetes_names_it() -> None:
    """What Go makes of the same: FNV-1 of the JSON as it writes it, in letters that make no words."""
    assert revision_hash({"spec": {"template": {"$patch": "replace"}}}) == "5c7586484"
    assert revision_hash({"spec": {"a": "<&>é"}}) == "7fc88f7bb6"


def test_a_surge_leaves_no_node_without_a_daemon_that_works() -> None:
    async def scenario(world: World) -> None:
        for name in ("n1", "n2", "n3"):
            await add_node(world, name)
        strategy = {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}
        await world.cluster.create(catalog.DAEMONSET, workload("DaemonSet", updateStrategy=strategy), "default")
        await world.settle(5)
        live: dict[str, Pod] = {}
        counts, bare = [], []

        def note(change: Change[Pod]) -> None:
            live.pop(change.key.name, None)
            if change.new is not None:
                live[change.key.name] = change.new
            counts.append(len(live))
            bare.append({"n1", "n2", "n3"} - {pod.spec.node_name for pod in live.values() if pod.is_ready})

        informers = Informers(world.cluster, world.clock, Random(4))
        pods = informers.informer(Pod)
        pods.add_handler(note)
        await informers.wait_synced()
        counts.clear()
        bare.clear()
        new = {"spec": {"template": template(image="new")}}
        await world.cluster.patch(catalog.DAEMONSET, "s", "default", new)
        await world.settle(40)
        await informers.stop()
        assert 3 < max(counts) <= 5
        assert not any(bare)
        assert ({pod.spec.containers[0].image for pod in live.values()}, len(live)) == ({"new"}, 3)
        seen = await world.cluster.get(DaemonSet, "s", "default")
        assert (seen.status.number_ready, seen.status.updated_number_scheduled) == (3, 3)

    play(scenario, enabled=("kube-daemonset-controller",))


@pytest.mark.parametrize("kind", ["DaemonSet", "StatefulSet"])
def test_a_rollback_makes_the_old_revision_the_newest(kind: str) -> None:
    async def scenario(world: World) -> None:
        served = catalog.DAEMONSET if kind == "DaemonSet" else catalog.STATEFULSET
        body = workload(kind, **({"serviceName": "x"} if kind == "StatefulSet" else {}))
        await world.cluster.create(served, body, "default")
        for image in ("two", "i"):
            await world.settle()
            await world.cluster.patch(served, "s", "default", {"spec": {"template": template(image=image)}})
        await world.settle()
        found = (await world.cluster.list(catalog.CONTROLLERREVISION, "default")).items
        images = {one["revision"]: one["data"]["spec"]["template"]["spec"]["containers"][0]["image"] for one in found}
        assert images == {2: "two", 3: "i"}
        assert all(one["metadata"]["labels"]["app"] == "a" for one in found)

    play(scenario, enabled=SETS)


def test_a_revision_of_the_same_content_is_taken_whatever_its_name() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.DAEMONSET, workload("DaemonSet"), "default")
        await world.settle()
        (made,) = (await world.cluster.list(catalog.CONTROLLERREVISION, "default")).items
        other = {**made, "metadata": {**made["metadata"], "name": "other"}}
        del other["metadata"]["resourceVersion"], other["metadata"]["uid"]
        await world.cluster.create(catalog.CONTROLLERREVISION, other, "default")
        await world.cluster.delete(ControllerRevision, made["metadata"]["name"], "default")
        await world.settle()
        await world.cluster.patch(DaemonSet, "s", "default", {"metadata": {"labels": {"look": "again"}}})
        await world.settle()
        left = (await world.cluster.list(catalog.CONTROLLERREVISION, "default")).items
        assert [one["metadata"]["name"] for one in left] == ["other"]

    play(scenario, enabled=SETS)


def test_claims_go_when_their_set_is_scaled_down() -> None:
    async def scenario(world: World) -> None:
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": ONE_GIBIBYTE}}
        retention = {"whenScaled": "Delete", "whenDeleted": "Retain"}
        body = workload("StatefulSet", replicas=3, serviceName="x", volumeClaimTemplates=[claim])
        body["spec"]["persistentVolumeClaimRetentionPolicy"] = retention
        await world.cluster.create(catalog.STATEFULSET, body, "default")
        await world.settle(20)
        await world.cluster.patch(StatefulSet, "s", "default", {"spec": {"replicas": 1}})
        await world.settle(20)
        left = [one.metadata.name for one in (await world.cluster.list(PersistentVolumeClaim, "default")).items]
        assert (left, sorted(await world.pods())) == (["data-s-0"], ["s-0"])

    play(scenario, enabled=(*SETS, "kube-garbage-collector", "kube-persistentvolume-controller"))


ONE_GIBIBYTE = {"requests": {"storage": "1Gi"}}
