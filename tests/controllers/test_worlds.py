"""What controllers are to do on API servers that take one request at a time, refuse, throttle, hang or lose answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any

import pytest

from strato.api import catalog
from strato.api.apps import ReplicaSet
from strato.api.core import Pod
from strato.api.volcano.scheduling import PodGroup, Queue
from strato.api.wire import Request
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, Conflict, InternalError, Unavailable
from strato.testing.faults import WORLDS, Faults, FaultyCluster, RequestFault, Rule
from tests.controllers import test_flow, test_job_lifecycle, test_kube, test_kube_jobs, test_kube_sets, test_queue
from tests.controllers.world import ADMIN, World, on_server, task, vcjob

EXACT = frozenset(
    {
        # these look at exact instants, or count what is asked
        "test_a_network_probe_is_asked_again_until_it_holds",
        "test_a_completed_job_that_is_gone_is_not_run_again",
        "test_a_job_runs_to_completion",
        "test_a_failing_job_restarts_until_its_retries_are_used_up",
        "test_restart_pod_replaces_that_pod_only",
        "test_a_job_that_cannot_be_prepared_is_told_so_and_terminated_in_the_end",
        "test_a_closing_queue_closes_with_its_last_group",
        "test_a_plain_pod_gets_a_group",
        "test_a_finished_job_expires_with_its_pods",
        "test_failures_are_retried_with_growing_pauses_and_end_the_job",
        "test_a_finished_job_goes_with_its_pods_when_its_time_has_come",
        "test_success_is_remembered_when_pods_are_removed",
        "test_endpoints_follow_pods",
        "test_a_silent_node_is_tainted_and_loses_its_pods",
        "test_a_deployment_scales_and_rolls",
        "test_an_action_that_waits_already_is_not_announced_again",
        "test_a_terminating_namespace_says_what_it_waits_for_and_asks_less_and_less_often",
        "test_pods_bear_a_taint_for_their_time_and_say_why_they_go",
        # their pods are on no node, and are collected before long
        "test_a_pod_whose_name_is_free_again_is_made",
        "test_deleting_a_job_removes_what_it_made_and_nothing_else",
        "test_deleting_a_replication_controller_leaves_its_pods_where_nothing_else_is_asked_for",
        "test_a_named_port_that_differs_between_pods_makes_a_slice_each",
        "test_a_service_finds_the_pods_that_were_there_before_it",
        # a pass over some sixty kinds has to be free of failures, as in Kubernetes
        "test_a_namespace_is_furnished_and_emptied",
        "test_pods_of_a_terminating_namespace_go_first",
    }
)


def scenarios(*modules: ModuleType) -> list[Any]:
    """Return the tests of modules that take no arguments and are about no exact instants."""
    return [
        pytest.param(test, id=name.removeprefix("test_"))
        for module in modules
        for name, test in vars(module).items()
        if name.startswith("test_") and inspect.isfunction(test) and name not in EXACT
        if not inspect.signature(test).parameters and not hasattr(test, "pytestmark")
        if not inspect.iscoroutinefunction(test)
    ]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    "scenario", scenarios(test_flow, test_job_lifecycle, test_kube, test_kube_jobs, test_kube_sets, test_queue)
)
def test_scenario(scenario: Callable[[], None], world: str) -> None:
    with on_server(WORLDS[world]):
        scenario()


def play(rule: Rule, story: Callable[[World, FaultyCluster], Any], **more: Any) -> None:
    """Run a story in which a rule decides what the controllers' requests come to."""
    clock = VirtualClock()

    async def main() -> None:
        world = World(clock, **more)
        cluster = FaultyCluster(world.server, ADMIN, clock, Random(1), faults=Faults())
        await world.start(cluster)
        await world.settle(1)
        cluster.rules.append(rule)
        try:
            await story(world, cluster)
        finally:
            await world.stop()

    run_virtual(clock, main())


def writes_to(part: str, error: ApiError) -> Callable[[Request], ApiError | None]:
    return lambda request: error if part in request.path and request.method not in ("GET", "POST") else None


async def order(world: World, name: str, action: str) -> None:
    queue = await world.cluster.get(Queue, "default")
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "default"}
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name, "namespace": "default"},
        "action": action,
        "target": {**target, "uid": queue.metadata.uid},
    }
    await world.cluster.create(catalog.COMMAND, command, "default")


@pytest.mark.parametrize("error", [Unavailable("away"), InternalError("etcdserver: request timed out")])
def test_an_outage_of_an_hour_costs_a_queue_none_of_its_orders(error: ApiError) -> None:
    async def story(world: World, cluster: FaultyCluster) -> None:
        await order(world, "close", "CloseQueue")
        await world.settle(3600)
        cluster.heal()
        await world.settle(40)
        assert (await world.cluster.get(Queue, "default")).status.state == "Closed"

    play(writes_to("/queues/", error), story)


def test_a_command_whose_deletion_had_no_answer_is_carried_out() -> None:
    async def story(world: World, _: FaultyCluster) -> None:
        await order(world, "close", "CloseQueue")
        await world.settle(10)
        assert (await world.cluster.get(Queue, "default")).status.state == "Closed"
        assert len(lost) == 1

    lost: list[Request] = []

    def first_deletion(request: Request) -> RequestFault | None:
        if request.method != "DELETE" or "/commands/" not in request.path or lost:
            return None
        lost.append(request)
        return RequestFault.LOST

    play(first_deletion, story)


def test_a_queue_that_opened_again_forgets_that_its_parent_had_closed_it() -> None:
    closed_by_parent = "volcano.sh/closed-by-parent"

    async def story(world: World, cluster: FaultyCluster) -> None:
        for name, action in (("close", "CloseQueue"), ("open", "OpenQueue")):
            annotations = {"metadata": {"annotations": {closed_by_parent: "true"}}}
            await world.cluster.patch(Queue, "default", "", annotations)
            await order(world, name, action)
            await world.settle(5)
        assert (await world.cluster.get(Queue, "default")).status.state == "Open"
        cluster.heal()
        await world.settle(200)
        assert (await world.cluster.get(Queue, "default")).metadata.annotation(closed_by_parent) == "false"

    def annotations(request: Request) -> ApiError | None:
        changes = request.method == "PATCH" and "/queues/" in request.path and "closed-by-parent" in str(request.body)
        return Unavailable("away") if changes else None

    play(annotations, story)


def test_an_internal_error_of_the_server_costs_no_job_its_life() -> None:
    async def story(world: World, cluster: FaultyCluster) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task(seconds=1)), "default")
        await world.settle(3600)
        cluster.heal()
        await world.until_phase("j", "Completed", seconds=60)

    def pods(request: Request) -> ApiError | None:
        return InternalError("etcdserver: leader changed") if request.path.endswith("/pods") else None

    play(lambda request: pods(request) if request.method == "POST" else None, story)


def test_a_group_inherits_its_owners_annotations_though_the_owner_could_not_be_read_at_first() -> None:
    async def story(world: World, cluster: FaultyCluster) -> None:
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "r", "namespace": "default", "annotations": {"volcano.sh/mine": "1"}},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
        await world.cluster.create(ReplicaSet, body, "default")
        await world.settle(10)
        cluster.heal()
        await world.settle(30)
        groups = (await world.cluster.list(PodGroup, "default")).items
        assert [group.metadata.annotation("volcano.sh/mine") for group in groups] == ["1"]

    def reads(request: Request) -> ApiError | None:
        return Unavailable("away") if request.method == "GET" and "/replicasets/" in request.path else None

    play(reads, story)


def test_a_deletion_that_met_a_conflict_is_tried_again() -> None:
    async def story(world: World, cluster: FaultyCluster) -> None:
        job = vcjob("j", task(seconds=1), ttlSecondsAfterFinished=5)
        await world.cluster.create(catalog.VCJOB, job, "default")
        await world.until_phase("j", "Completed")
        await world.settle(30)
        assert (await world.job("j")).status.state.phase == "Completed"  # nothing can be deleted yet
        cluster.heal()
        await world.settle(200)
        assert not (await world.cluster.list(catalog.VCJOB, "default")).items

    conflict = Conflict("the object has been modified")
    play(lambda request: conflict if request.method == "DELETE" and "/jobs/" in request.path else None, story)


def test_pods_of_a_terminating_namespace_go_first_though_they_could_not_be_listed_at_first() -> None:
    async def story(world: World, cluster: FaultyCluster) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
        await world.cluster.create(catalog.NAMESPACE, body)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "finalizers": ["example.com/hold"]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await world.cluster.create(Pod, pod, "team")
        mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {}}
        await world.cluster.create(catalog.CONFIGMAP, mine, "team")
        await world.cluster.delete(catalog.NAMESPACE, "team")
        await world.settle(60)
        assert await world.cluster.get(catalog.CONFIGMAP, "mine", "team")

    def lists(request: Request) -> ApiError | None:
        return Unavailable("away") if request.method == "GET" and request.path.endswith("/team/pods") else None

    play(lists, story)
