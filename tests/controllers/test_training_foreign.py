"""Where Kubeflow's own operators run, our controllers of their kinds stand aside."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import pytest

from strato.api import catalog, trainer
from strato.api.frameworks import FRAMEWORKS, MPI_OPERATOR, OPERATOR
from strato.client.events import EventRecorder
from strato.clock import VirtualClock, run_virtual
from strato.controllers.training.foreign import LOOK_SECONDS, SELECTORS, ForeignOperator
from strato.errors import ApiError, Forbidden, Unavailable
from strato.testing.faults import Faults, FaultyCluster
from tests.controllers.test_training_elastic import training
from tests.controllers.world import ADMIN, World, play

TRAINING, MPI = {"control-plane": "kubeflow-training-operator"}, {"app": "mpi-operator"}


def deployment(labels: dict[str, str], replicas: int = 1) -> dict[str, Any]:
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "o", "labels": labels}, "spec": spec}


def test_every_kind_has_an_operator_to_stand_aside_for() -> None:
    assert {framework.manager for framework in FRAMEWORKS} | {trainer.CONTROLLER} == SELECTORS.keys()


async def work_on(begun: asyncio.Event) -> None:
    begun.set()
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("found", "manager", "waits"),
    [
        pytest.param(None, OPERATOR, False, id="none"),
        pytest.param(deployment(TRAINING), OPERATOR, True, id="the training operator"),
        pytest.param(deployment(TRAINING, replicas=0), OPERATOR, False, id="scaled to nothing"),
        pytest.param(deployment(TRAINING), MPI_OPERATOR, False, id="not that of MPIJobs of v2beta1"),
        pytest.param(deployment(MPI), MPI_OPERATOR, True, id="the MPI operator"),
        pytest.param(deployment(MPI), OPERATOR, False, id="which runs no other kind"),
        pytest.param(deployment({"app": "other"}), OPERATOR, False, id="somebody else's"),
    ],
)
def test_an_operator_is_noticed_whenever_it_comes_and_goes(found: Any, manager: str, waits: bool) -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = World(clock).cluster
        if found is not None:
            await cluster.create(catalog.DEPLOYMENT, found, "default")
        operator = ForeignOperator(cluster, clock, "ours", manager, EventRecorder(cluster, clock, "test"))
        begun = asyncio.Event()
        watching = asyncio.ensure_future(operator.run_beside(partial(work_on, begun)))
        await begun.wait()
        for _ in range(2):  # it goes, and comes again
            await clock.sleep(3 * LOOK_SECONDS)
            assert operator.is_running is waits
            if waits:
                await cluster.patch(catalog.DEPLOYMENT, "o", "default", {"spec": {"replicas": 0}})
                await clock.sleep(2 * LOOK_SECONDS)
                assert not operator.is_running
                await cluster.patch(catalog.DEPLOYMENT, "o", "default", {"spec": {"replicas": 1}})
        watching.cancel()

    clock = VirtualClock()
    run_virtual(clock, story(clock))


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        pytest.param(Unavailable("not now"), False, id="unavailable: asked again"),
        pytest.param(Forbidden("no"), True, id="forbidden: on one's own account"),
    ],
)
def test_a_controller_that_cannot_ask_does_not_begin_unless_it_never_may(error: ApiError, begins: bool) -> None:
    async def story(clock: VirtualClock) -> None:
        cluster = FaultyCluster(World(clock).server, ADMIN, clock, Random(1), faults=Faults())
        cluster.rules.append(lambda _: error)
        operator = ForeignOperator(cluster, clock, "ours", OPERATOR, EventRecorder(cluster, clock, "test"))
        begun = asyncio.Event()
        watching = asyncio.ensure_future(operator.run_beside(partial(work_on, begun)))
        await clock.sleep(100)
        assert begun.is_set() is begins
        cluster.rules.clear()
        await clock.sleep(2 * LOOK_SECONDS)
        assert begun.is_set()
        assert not operator.is_running
        watching.cancel()

    clock = VirtualClock()
    run_virtual(clock, story(clock))


def test_a_controller_stops_when_an_operator_comes_and_goes_on_when_it_goes() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.PYTORCHJOB, training(1), "default")
        await world.settle()
        assert set(await world.pods()) == {"p-worker-0"}
        await world.cluster.create(catalog.DEPLOYMENT, deployment(TRAINING), "default")
        await world.settle(2 * LOOK_SECONDS)
        await world.cluster.patch(catalog.PYTORCHJOB, "p", "default", {"spec": {"replicas": 2}}, subresource="scale")
        await world.settle(3 * LOOK_SECONDS)
        assert set(await world.pods()) == {"p-worker-0"}, "who runs it now has not done it"
        events = [one for one in (await world.cluster.list(catalog.EVENT)).items if one["reason"] == "LeftToOperator"]
        assert [(one["involvedObject"]["name"], one["message"], one.get("count", 1)) for one in events] == [
            (
                "p",
                "default/o runs kubeflow.org/training-operator: the job is left to it; pytorchjob-controller goes on "
                "when it is gone",
                1,
            )
        ]
        await world.cluster.delete(catalog.DEPLOYMENT, "o", "default")
        await world.settle(3 * LOOK_SECONDS)
        assert set(await world.pods()) == {"p-worker-0", "p-worker-1"}

    play(scenario, enabled=("pytorchjob-controller", "queue-controller"))
