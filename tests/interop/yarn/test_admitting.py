"""Applications beyond maximum-applications are turned away at admission, also when many come at once or it restarts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from strato.admission import AdmissionRequest, Chain, ChainOptions
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.queueacls import SUBMITTED_BY
from strato.api.volcano.scheduling import PodGroup
from strato.api.wire import User
from strato.client.cluster import Cluster
from strato.client.informer import Informers
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import Forbidden
from strato.interop.yarn.admitting import IN_FLIGHT_SECONDS, Applications, SubmissionLimits
from strato.interop.yarn.placing import FollowedPlacement
from strato.server.embedded import in_memory_server
from tests.admission.reader import FakeWorld
from tests.admission.rules import job, task
from tests.interop.yarn.worlds import write_capacity

ADMIN = User("admin", ("system:masters",))
TREE = {"root.queues": "a,b", "root.a.capacity": "25", "root.b.capacity": "75"}
QUEUES = FakeWorld().add(catalog.NAMESPACE, "default").queue("root").queue("a").queue("b").queue("other")


class Door:
    """A webhook's chain with the limits of a file, before a real API server that has the pod groups."""

    def __init__(self, cluster: Cluster, clock: VirtualClock, file: Path, user_key: str) -> None:
        self.cluster = cluster
        self._clock = clock
        self._file = file
        self._user_key = user_key

    async def restart(self) -> None:
        self.informers = Informers(self.cluster, self._clock, Random(1))
        rules = FollowedPlacement(self._file)
        rules.refresh(self._clock.now())
        self.applications = Applications(self.informers.informer(PodGroup), self._clock, self._user_key)
        limits = SubmissionLimits(rules, self.applications)
        self._chain = Chain(ChainOptions(queue_placement=rules, queue_limits=limits))
        await self.informers.wait_synced()

    def submit(
        self, name: str, queue: str = "a", *, user: str = "ada", kind: Kind = catalog.VCJOB, dry_run: bool = False,
        owner: str = "", **annotations: str,
    ) -> str:  # fmt: skip
        """Return why a job is turned away, or ""."""
        obj: dict[str, Any] = job(task(), minAvailable=1, queue=queue)
        if kind is catalog.PODGROUP:
            obj = {"metadata": {}, "spec": {"queue": queue, "minMember": 1}}
        obj["metadata"] |= {"name": name, "namespace": "default", "annotations": annotations}
        if owner:
            obj["metadata"]["ownerReferences"] = [{"controller": True, "kind": "Job", "name": owner}]
        request = AdmissionRequest("CREATE", kind, "default", name, obj, None, User(user, ()), dry_run=dry_run)
        try:
            self._chain.mutate(request, QUEUES)
        except Forbidden as refusal:
            return str(refusal)
        return ""

    async def group(self, name: str, queue: str = "a", *, of: str = "", phase: str = "", **annotations: str) -> None:
        """Make the pod group of a job that was admitted."""
        owners = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": of, "uid": of, "controller": True}]
        metadata = {"name": name, "namespace": "default", "annotations": annotations}
        body = {
            "apiVersion": catalog.PODGROUP.api_version,
            "kind": catalog.PODGROUP.name,
            "metadata": metadata | ({"ownerReferences": owners} if of else {}),
            "spec": {"queue": queue, "minMember": 1},
        }
        await self.cluster.create(catalog.PODGROUP, body, "default")
        if phase:
            await self.end(name, phase)
        await self._clock.sleep(1)

    async def end(self, name: str, phase: str = "Completed") -> None:
        where = "status" if catalog.PODGROUP.has_status else ""
        await self.cluster.patch(catalog.PODGROUP, name, "default", {"status": {"phase": phase}}, subresource=where)
        await self._clock.sleep(1)

    async def wait(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def play(folder: Path, scenario: Callable[[Door], Awaitable[None]], user_key: str = "", **settings: str) -> None:
    clock = VirtualClock()
    file = folder / "capacity-scheduler.xml"
    write_capacity(file, {**TREE, **{name.replace("__", "."): value for name, value in settings.items()}})

    async def main() -> None:
        cluster = LocalCluster(in_memory_server(clock, Random(1), chain=Chain(ChainOptions())), ADMIN)
        for name in ("root", "a", "b"):
            body = {"apiVersion": catalog.QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {}}
            await cluster.create(catalog.QUEUE, body)
            await cluster.patch(catalog.QUEUE, name, "", {"status": {"state": "Open"}}, subresource="status")
        door = Door(cluster, clock, file, user_key)
        await door.restart()
        try:
            await scenario(door)
        finally:
            await door.informers.stop()

    run_virtual(clock, main())


LIMITED = {"root.a.maximum-applications": "2"}


def test_a_queue_takes_so_many_and_says_it_as_yarn_does(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        assert [door.submit(name) for name in "xy"] == ["", ""]  # at once: nobody has seen their pod groups
        assert door.submit("z") == (
            "Job z of ada goes to no queue: Queue root.a already has 2 applications, cannot accept submission of "
            "application: z; it takes 2: wait until some have ended, or use another queue"
        )
        assert door.submit("z", "b") == ""
        for name in "xy":
            await door.group(f"{name}-1", of=name)
        assert "already has 2 applications" in door.submit("z")
        await door.end("x-1")
        assert door.submit("z") == ""
        assert "already has 2 applications" in door.submit("last")

    play(tmp_path, scenario, **LIMITED)


def test_a_restart_counts_the_same(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        for name in "xy":
            assert door.submit(name) == ""
            await door.group(name, of=name)
        await door.group("over", of="over", phase="Completed")
        await door.informers.stop()
        await door.restart()
        assert "already has 2 applications" in door.submit("z")
        await door.cluster.delete(catalog.PODGROUP, "x", "default")
        await door.wait(1)
        assert door.submit("z") == ""

    play(tmp_path, scenario, **LIMITED)


def test_what_is_never_created_counts_for_a_while_only(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        assert [door.submit(name) for name in "xy"] == ["", ""]
        assert door.submit("x") != ""
        await door.wait(IN_FLIGHT_SECONDS + 1)
        assert [door.submit(name) for name in "vw"] == ["", ""]

    play(tmp_path, scenario, **LIMITED)


def test_trials_and_what_somebody_else_counts_are_not_counted(tmp_path: Path) -> None:
    async def scenario(door: Door) -> None:
        for at in range(5):
            assert door.submit(f"trial-{at}", dry_run=True) == ""
            assert door.submit(f"part-{at}", kind=catalog.PODGROUP, owner="x") == ""
        assert [door.submit(name, kind=catalog.PODGROUP) for name in "xy"] == ["", ""]
        assert "already has 2 applications" in door.submit("z", dry_run=True)
        assert door.submit("elsewhere", "other") == ""  # no queue of the file

    play(tmp_path, scenario, **LIMITED)


@pytest.mark.parametrize(
    ("key", "annotations"),
    [
        pytest.param("team", {"team": "ada"}, id="by annotation"),
        pytest.param(SUBMITTED_BY, {}, id="who submits"),
    ],
)
def test_a_user_has_a_part_of_them(tmp_path: Path, key: str, annotations: dict[str, str]) -> None:
    async def scenario(door: Door) -> None:
        assert door.submit("x", **annotations) == ""
        assert (
            "Queue root.a already has 1 applications from user ada cannot accept submission of application: y; "
            "it takes 1 of a user" in door.submit("y", **annotations)
        )
        await door.group("x", of="x", **{key: "ada"})
        assert "from user ada" in door.submit("y", **annotations)
        others = dict.fromkeys(annotations, "bob")
        assert door.submit("y", user="bob", **others) == ""

    play(tmp_path, scenario, key, **LIMITED, **{"root.a.minimum-user-limit-percent": "50"})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        pytest.param({"maximum-applications": "8"}, "Queue root.a already has 2 applications", id="by capacity"),
        pytest.param({"global-queue-max-application": "2"}, "Queue root.a already has 2 applications", id="for all"),
        pytest.param(
            {"maximum-applications": "2", "root.a.maximum-applications": "9"},
            "Maximum system application limit reached, cannot accept submission of application: z",
            id="the whole system",
        ),
        pytest.param(
            {"maximum-applications": "9", "root.a.state": "STOPPED"},
            "Queue root.a is STOPPED. Cannot accept submission of application: x",
            id="stopped",
        ),
        pytest.param(
            {
                "maximum-applications": "2", "root.a.capacity": "[memory=1024,vcores=1]",
                "root.b.capacity": "[memory=1024,vcores=1]",
            },
            "Maximum system application limit reached",
            id="amounts have no share before there are nodes",
        ),
    ],
)  # fmt: skip
def test_where_limits_come_from(tmp_path: Path, settings: dict[str, str], text: str) -> None:
    async def scenario(door: Door) -> None:
        found = [door.submit(name) for name in "xyz"]
        assert text in next(one for one in found if one)
        assert found.index(next(one for one in found if one)) == (0 if "STOPPED" in text else 2)

    play(tmp_path, scenario, **settings)
