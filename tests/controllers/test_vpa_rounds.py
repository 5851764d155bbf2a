"""What the recommender keeps between its rounds: uses of autoscalers and containers that there still are."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from strato.advice.use import Aggregation, UseHistograms
from strato.api import catalog
from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.metrics import PodMetrics
from strato.api.verticalautoscaling import VerticalPodAutoscaler
from strato.client.events import EventRecorder
from strato.client.informer import Informers
from strato.clock import VirtualClock, run_virtual
from strato.controllers.context import ControllerContext
from strato.controllers.vpa import checkpoints
from strato.controllers.vpa.recommender import VerticalAutoscalerController
from strato.metrics import Registry
from tests.controllers.world import World

V, W = Key("ns", "v"), Key("ns", "w")
KEPT = Aggregation().kept_seconds


def context() -> ControllerContext:
    clock = VirtualClock()
    cluster = World(clock).cluster
    return ControllerContext(
        cluster=cluster,
        informers=Informers(cluster, clock, Random(1)),
        clock=clock,
        random=Random(1),
        recorder=EventRecorder(cluster, clock, "test"),
        metrics=Registry(),
    )


def controller() -> VerticalAutoscalerController:
    return VerticalAutoscalerController(context())


def pod(uid: str, *killed: str, request: str = "1Gi") -> Pod:
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "1970-01-01T00:00:00Z"}}
    statuses = [{"name": name, "restartCount": 1, "lastState": ended} for name in killed]
    containers = [{"name": name, "resources": {"requests": {"memory": request}}} for name in ("a", "b")]
    body = {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": containers}}
    return msgspec.convert({**body, "status": {"containerStatuses": statuses}}, Pod)


def measured(**cores: str) -> PodMetrics:
    usage: list[Any] = [{"name": name, "usage": {"cpu": amount, "memory": "1Mi"}} for name, amount in cores.items()]
    return msgspec.convert({"metadata": {"name": "p"}, "containers": usage}, PodMetrics)


def held(of: VerticalAutoscalerController) -> tuple[dict[str, set[str]], set[tuple[str, str, str]], set[str]]:
    uses = {key.name: set(named) for key, named in of._uses.items() if named}
    containers = {(autoscaler.name, name, uid) for (autoscaler, name), uid in of._containers}
    return uses, containers, {uid for uid, _, _ in of._ooms}


def test_what_is_gone_is_forgotten_and_nothing_else() -> None:
    made = controller()
    for autoscaler, uid in ((V, "one"), (V, "two"), (W, "three")):
        made._take(autoscaler, pod(uid, "a"), measured(a="1", b="1"), 10.0)
    every = {(name, container, uid) for name, uid in (("v", "one"), ("v", "two"), ("w", "three")) for container in "ab"}
    assert held(made) == ({"v": {"a", "b"}, "w": {"a", "b"}}, every, {"one", "two", "three"})
    made._forget({V, W}, {"one", "two", "three"}, 10.0)
    assert held(made) == ({"v": {"a", "b"}, "w": {"a", "b"}}, every, {"one", "two", "three"})
    made._forget({V, W}, {"one", "three"}, 10.0)
    assert held(made) == (
        {"v": {"a", "b"}, "w": {"a", "b"}}, {one for one in every if one[2] != "two"}, {"one", "three"}
    ), "a pod has gone, its histograms stay"  # fmt: skip
    made._forget({V}, {"one", "three"}, 10.0)
    assert held(made)[:2] == ({"v": {"a", "b"}}, {("v", "a", "one"), ("v", "b", "one")}), "an autoscaler has gone"


def test_histograms_without_new_samples_are_forgotten() -> None:
    made = controller()
    made._take(V, pod("one"), measured(a="1"), 10.0)
    made._take(V, pod("one"), measured(b="1"), 20.0)
    made._forget({V}, {"one"}, 10.0 + KEPT - 1)
    assert held(made)[0] == {"v": {"a", "b"}}
    made._forget({V}, {"one"}, 10.0 + KEPT)
    assert held(made)[:2] == ({"v": {"b"}}, {("v", "b", "one")})


def test_a_kill_is_taken_once() -> None:
    made = controller()
    for _ in range(2):
        made._take(V, pod("one", "a", "b"), None, 10.0)
    weights = [sum(made._uses[V][name].memory.buckets().values()) for name in "ab"]
    assert weights[0] == weights[1] > 0
    again = controller()
    again._take(V, pod("one", "a"), None, 10.0)
    assert sum(again._uses[V]["a"].memory.buckets().values()) == weights[0]
    assert "b" not in again._uses[V]
    broken = controller()
    broken._take(V, pod("one", "a", request="x"), None, 10.0)
    assert not broken._uses[V], "a request that cannot be read says nothing"


def test_checkpoints_of_its_own_autoscalers_are_read_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """Those of another recommender may have a form of its own, which is no reason for a warning."""
    begun = context()

    async def story() -> None:
        for name, recommender in (("v", "strato"), ("w", "other")):
            body: dict[str, Any] = {
                "apiVersion": "autoscaling.k8s.io/v1",
                "kind": "VerticalPodAutoscaler",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "targetRef": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train"},
                    "recommenders": [{"name": recommender}],
                },
            }
            await begun.cluster.create(catalog.VERTICALPODAUTOSCALER, body, "default")
        use = UseHistograms(Aggregation())
        use.cpu.add(1.0, 0.1, 60.0)
        use.count_sample(60.0)
        for autoscaler, container, version in (("v", "a", ""), ("v", "b", "v0"), ("w", "a", "v0"), ("gone", "a", "")):
            owner = msgspec.convert({"metadata": {"name": autoscaler, "namespace": "default"}}, VerticalPodAutoscaler)
            body = checkpoints.body_of(owner, container, use, 60.0)
            del body["metadata"]["ownerReferences"]
            body["status"] |= {"version": version} if version else {}
            await begun.cluster.create(catalog.VERTICALPODAUTOSCALERCHECKPOINT, body, "default")
        made = VerticalAutoscalerController(begun)
        await begun.informers.wait_synced()
        await made._load()
        assert held(made)[0] == {"v": {"a"}}
        assert made._uses[Key("default", "v")]["a"].samples == 1
        assert [record.getMessage().partition(" error=")[0] for record in caplog.records] == [
            "checkpoint cannot be used: name=default/v-b"
        ]
        await begun.informers.stop()

    assert isinstance(begun.clock, VirtualClock)
    run_virtual(begun.clock, story())
