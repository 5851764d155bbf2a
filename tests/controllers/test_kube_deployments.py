"""Deployments on the embedded cluster: adoption, shares when scaled, deadlines, revisions."""

from __future__ import annotations

from typing import Any

import pytest

from strato.api import catalog
from strato.api.apps import Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet
from strato.api.meta import ObjectMeta
from strato.clock import format_time
from strato.controllers.kube.deployments import HISTORY, REVISION
from strato.controllers.kube.rolloutplan import Scale, plan_progress, plan_resize
from tests.controllers.test_kube import deployment
from tests.controllers.world import World, play

ENABLED = ("kube-deployment-controller", "kube-replicaset-controller", "kube-garbage-collector")


@pytest.mark.parametrize(
    ("replicas", "new", "old", "want"),
    [
        pytest.param(30, (5, 0, 13), [(8, 8, 13)], {"new": 13, "old0": 20}, id="each grows by its share"),
        pytest.param(5, (10, 5, 23), [(10, 8, 23)], {"new": 5, "old0": 3}, id="each shrinks by its share"),
        pytest.param(0, (5, 5, 13), [(8, 8, 13)], {"new": 0, "old0": 0}, id="nothing is left"),
        pytest.param(7, (3, 3, 0), [], {"new": 7}, id="the only one"),
        pytest.param(7, (0, 0, 0), [(3, 3, 0)], {"old0": 7}, id="the only one that has pods"),
        pytest.param(4, (4, 4, 7), [(1, 1, 7)], {"old0": 0}, id="the new one has all"),
    ],
)
def test_plan_resize(
    replicas: int, new: tuple[int, int, int], old: list[tuple[int, int, int]], want: dict[str, int]
) -> None:
    def scale(name: str, asked: int, available: int, most: int) -> Scale:
        return Scale(name, asked, available, asked, most)

    assert plan_resize(replicas, scale("new", *new), [scale(f"old{n}", *o) for n, o in enumerate(old)], surge=3) == want


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("known", "updated", "paused", "want"),
    [
        pytest.param(("", 0), 0, False, ("True", "NewReplicaSetCreated"), id="a rollout begins"),
        pytest.param(("ReplicaSetUpdated", 100), 1, False, ("True", "ReplicaSetUpdated"), id="it gets on"),
        pytest.param(("ReplicaSetUpdated", 59), 0, False, ("True", "ReplicaSetUpdated"), id="it has time"),
        pytest.param(("ReplicaSetUpdated", 61), 0, False, ("False", "ProgressDeadlineExceeded"), id="it is late"),
        pytest.param(
            ("ProgressDeadlineExceeded", 99), 0, False, ("False", "ProgressDeadlineExceeded"), id="it stays late"
        ),
        pytest.param(("ProgressDeadlineExceeded", 99), 1, False, ("True", "ReplicaSetUpdated"), id="late, and gets on"),
        pytest.param(
            ("ReplicaSetUpdated", 61), 0, True, ("Unknown", "DeploymentPaused"), id="no deadline while paused"
        ),
        pytest.param(("DeploymentPaused", 99), 0, False, ("Unknown", "DeploymentResumed"), id="resumed"),
        pytest.param(("ReplicaSetUpdated", 99), 3, False, ("True", "NewReplicaSetAvailable"), id="done"),
        pytest.param(("NewReplicaSetAvailable", 99), 1, False, ("True", "NewReplicaSetCreated"), id="another begins"),
    ],
)
def test_plan_progress(known: tuple[str, float], updated: int, paused: bool, want: tuple[str, str]) -> None:
    reason, ago = known
    status = "False" if reason == "ProgressDeadlineExceeded" else "True"
    since = format_time(NOW - ago)
    before = DeploymentCondition(
        type="Progressing", status=status, reason=reason, last_transition_time=since, last_update_time=since
    )
    one = Deployment(
        metadata=ObjectMeta(name="d"),
        spec=DeploymentSpec(replicas=3, progress_deadline_seconds=60, paused=paused),
        status=DeploymentStatus(replicas=3, conditions=(before,) if reason else ()),
    )
    counts = {"updatedReplicas": updated, "replicas": 3, "readyReplicas": 0, "availableReplicas": updated}
    condition, _ = plan_progress(one, counts, "d-new", NOW)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == want


def test_a_rollout_that_does_not_get_on_is_reported() -> None:
    async def scenario(world: World) -> None:
        body = deployment(2, "one")
        body["spec"]["progressDeadlineSeconds"] = 20
        body["spec"]["template"]["metadata"]["annotations"] = {"test/unbound": "yes"}
        await world.cluster.create(Deployment, body, "default")

        async def is_late() -> bool:
            found = await world.cluster.get(Deployment, "d", "default")
            return any(c.reason == "ProgressDeadlineExceeded" and c.status == "False" for c in found.status.conditions)

        await world.settle(10)
        assert not await is_late()
        await world.until(is_late, 30)

    play(scenario, enabled=ENABLED)


def test_an_orphaned_replica_set_is_adopted_and_its_revisions_go_on() -> None:
    async def scenario(world: World) -> None:
        body = deployment(2, "one")
        template: Any = body["spec"]["template"]
        orphan = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "old", "labels": template["metadata"]["labels"], "annotations": {REVISION: "41"}},
            "spec": {"replicas": 2, "selector": body["spec"]["selector"], "template": template},
        }
        await world.cluster.create(catalog.REPLICASET, orphan, "default")
        await world.settle()
        before = set(await world.pods())
        await world.cluster.create(Deployment, body, "default")
        await world.settle()
        assert set(await world.pods()) == before  # the same template: nothing rolls
        assert [one.metadata.name for one in (await world.cluster.list(ReplicaSet, "default")).items] == ["old"]
        for image, revision in (("two", "42"), ("one", "43")):
            change = {
                "metadata": {"annotations": {"kubernetes.io/change-cause": image}},
                "spec": {"template": deployment(2, image)["spec"]["template"]},
            }
            await world.cluster.patch(Deployment, "d", "default", change)
            await world.settle(30)
            found = await world.cluster.get(Deployment, "d", "default")
            assert found.metadata.annotation(REVISION) == revision
        back = await world.cluster.get(ReplicaSet, "old", "default")
        assert (back.spec.replicas, back.metadata.annotation(HISTORY)) == (2, "41")
        assert back.metadata.annotation("kubernetes.io/change-cause") == "one"

    play(scenario, enabled=ENABLED)


def test_a_name_that_is_taken_counts_as_a_collision() -> None:
    async def scenario(world: World) -> None:
        body = deployment(1, "one")
        await world.cluster.create(Deployment, body, "default")
        await world.settle()
        (taken,) = (await world.cluster.list(ReplicaSet, "default")).items
        await world.cluster.delete(Deployment, "d", "default", propagation="Orphan")
        await world.settle()
        # somebody else's now: the selector does not match it any more
        await world.cluster.patch(
            catalog.REPLICASET, taken.metadata.name, "default", {"metadata": {"labels": {"app": "other"}}}
        )
        await world.cluster.create(Deployment, body, "default")
        await world.settle(20)
        found = await world.cluster.get(Deployment, "d", "default")
        assert (found.status.collision_count, found.status.available_replicas) == (1, 1)

    play(scenario, enabled=ENABLED)
