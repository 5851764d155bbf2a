"""What arrives together is known as if it had come one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from msgspec import convert
from msgspec.structs import replace

from strato.api import catalog
from strato.api.core import Node, Pod, PodSpec
from strato.api.kinds import Kind
from strato.client.informer import Change
from strato.scheduler.cache.feed import Feed
from strato.scheduler.cache.journal import Journal
from strato.scheduler.cache.world import World

_PHASES = ("Pending", "Running", "Running", "Running", "Succeeded", "Failed", "Unknown", "")


def _pod(number: int, rng: random.Random) -> Pod:
    requests = {"cpu": f"{rng.randint(1, 4)}", "memory": "1Gi", "example.com/gpu": str(rng.randint(0, 2))}
    meta = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"}
    if rng.random() < 0.1:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": requests}}]}
    if rng.random() < 0.8:
        spec["nodeName"] = f"n{rng.randint(0, 5)}"  # n5 is not known
    annotations = {"scheduling.k8s.io/group-name": f"g{number % 40}"}
    body = {"metadata": {**meta, "annotations": annotations}, "spec": spec, "status": {"phase": rng.choice(_PHASES)}}
    return convert(body, Pod)


def _world() -> tuple[World, Feed]:
    world = World(("volcano",))
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "250", "example.com/gpu": "8"}
    for n in range(5):
        body = {"metadata": {"name": f"n{n}", "uid": f"n{n}"}, "status": {"allocatable": allocatable}}
        world.set_node(convert(body, Node))
    return world, Feed(world, lambda: None, lambda view, why: pytest.fail(f"{view.key}: {why}"))


@pytest.mark.parametrize("seed", range(5))
def test_many_pods_at_once_leave_the_world_that_single_ones_leave(seed: int) -> None:
    rng = random.Random(seed)
    changes = [Change(None, _pod(number, rng)) for number in range(300)]
    changes += [Change(change.new, _pod(rng.randint(0, 299), rng)) for change in changes[:50]]
    changes += [Change(change.new, None) for change in changes[100:150]]
    (together, feed), (single, slow) = _world(), _world()
    feed.on_pods(changes)
    for change in changes:
        slow.on_pods([change])

    assert {k: (t.status, t.row) for k, t in together.tasks.items()} == {
        k: (t.status, t.row) for k, t in single.tasks.items()
    }
    for name in ("idle", "releasing", "pipelined", "requested", "scored", "pods"):
        np.testing.assert_array_equal(getattr(together.nodes, name), getattr(single.nodes, name), name)
    assert together.nodes.leaving == single.nodes.leaving
    assert not any(together.nodes.repair(row) for row in range(5)), "sums differ from what the tasks say"
    for key, job in together.jobs.items():
        other = single.jobs[key]
        assert (job.counts, set(job.pending), job.used.tolist(), job.pending_request.tolist()) == (
            other.counts,
            set(other.pending),
            other.used.tolist(),
            other.pending_request.tolist(),
        )
    assert set(together.with_pending) == set(single.with_pending) == {k for k, j in single.jobs.items() if j.pending}


@pytest.mark.parametrize(
    ("affinity", "classes"),
    [
        pytest.param(None, 1, id="pods that share a plain spec are of one class, whatever their labels"),
        pytest.param({"nodeAffinity": {}}, 2, id="with rules of affinity, labels tell classes apart"),
        pytest.param({"podAntiAffinity": {}}, 2, id="with rules about other pods, labels tell classes apart"),
    ],
)
def test_a_shared_spec_means_one_class_unless_labels_count(affinity: dict[str, object] | None, classes: int) -> None:
    world, feed = _world()
    spec = convert({"schedulerName": "volcano", "containers": [{"name": "c"}], "affinity": affinity}, PodSpec)
    pods = [convert({"metadata": {"name": n, "namespace": "ns", "uid": n, "labels": {"app": n}}}, Pod) for n in "ab"]
    feed.on_pods([Change(None, replace(pod, spec=spec)) for pod in pods])
    assert len({task.cls.number for task in world.tasks.values()}) == classes


def test_a_pod_that_is_resized_holds_the_most_of_what_it_may() -> None:
    """From the moment the resize is asked for, until its node says that it holds less."""
    world, feed = _world()

    def state(generation: int, wanted: str, held: str) -> Pod:
        container = {"name": "c", "resources": {"requests": {"cpu": wanted}}}
        entry = {"name": "c", "resources": {"requests": {"cpu": held}}, "allocatedResources": {"cpu": held}}
        body = {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": generation},
            "spec": {"schedulerName": "volcano", "nodeName": "n0", "containers": [container]},
            "status": {"phase": "Running", "containerStatuses": [entry]},
        }
        return convert(body, Pod)

    states = [state(1, "1", "1"), state(2, "4", "1"), state(2, "4", "4"), state(3, "2", "4"), state(3, "2", "2")]
    free = []
    for old, new in zip([None, *states], states, strict=False):
        feed.on_pods([Change(old, new)])
        free.append(int(world.nodes.idle[world.nodes.row("n0")][0]) // 1000)
        assert not any(world.nodes.repair(row) for row in range(5)), "sums differ from what the tasks say"
    assert free == [63, 60, 60, 60, 62]


class Dropped(Journal):
    """Keeps what the world forgets."""

    def __init__(self) -> None:
        self.seen: list[tuple[Kind, str, str]] = []

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        self.seen.append((kind, namespace, name))


def test_what_goes_is_recorded_for_a_replay() -> None:
    world, feed = _world()
    world.journal = journal = Dropped()
    pod = _pod(1, random.Random(0))
    node = convert({"metadata": {"name": "n0", "uid": "n0"}}, Node)
    feed.on_pods([Change(None, pod)])
    feed.on_pods([Change(pod, None)])
    feed.on_nodes([Change(node, None)])
    assert journal.seen == [(catalog.POD, "ns", "p1"), (catalog.NODE, "", "n0")]
