from __future__ import annotations

import asyncio
from random import Random

import pytest

from strato.api import catalog
from strato.api.wire import User
from strato.client.leases import LeaderElector, LeadershipLost, LeaseTiming
from strato.client.local import LocalCluster
from strato.clock import VirtualClock, run_virtual
from strato.errors import UsageError
from tests.client.fakeserver import FakeServer

LEASES = "/apis/coordination.k8s.io/v1/leases"


class World:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.clock = VirtualClock()
        self.cluster = LocalCluster(self.server, User("t"))
        self.leading: list[tuple[str, str, float]] = []

    def elector(self, identity: str) -> LeaderElector:
        return LeaderElector(self.cluster, self.clock, Random(identity), name="lock", namespace="ns", identity=identity)

    async def lead(self, elector: LeaderElector, seconds: float = 1e9) -> None:
        async def work() -> None:
            self.leading.append((elector.identity, "begins", self.clock.monotonic()))
            try:
                await self.clock.sleep(seconds)
            finally:
                self.leading.append((elector.identity, "ends", self.clock.monotonic()))

        await elector.run(work)

    def lease(self) -> dict:
        return self.server.objects[(LEASES, "ns", "lock")]["spec"]


def test_one_leads_and_the_other_takes_over_at_once_when_it_is_released() -> None:
    w = World()

    async def main() -> None:
        first = asyncio.create_task(w.lead(w.elector("a")))
        await w.clock.sleep(1)
        second = asyncio.create_task(w.lead(w.elector("b")))
        await w.clock.sleep(60)
        assert [who for who, what, _ in w.leading] == ["a"]
        assert w.lease()["holderIdentity"] == "a"
        assert w.lease()["leaseDurationSeconds"] == 15
        first.cancel()
        await asyncio.wait((first,))
        assert w.lease()["holderIdentity"] == ""
        await w.clock.sleep(6)
        assert [(who, what) for who, what, _ in w.leading] == [("a", "begins"), ("a", "ends"), ("b", "begins")]
        assert w.lease()["leaseTransitions"] == 1
        second.cancel()
        await asyncio.wait((second,))

    run_virtual(w.clock, main())


def test_lease_of_a_dead_holder_is_taken_after_its_duration() -> None:
    w = World()
    w.server.put(
        LEASES,
        {
            "metadata": {"name": "lock", "namespace": "ns"},
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "leaseTransitions": 4},
        },
    )

    async def main() -> None:
        task = asyncio.create_task(w.lead(w.elector("b")))
        await w.clock.sleep(14)
        assert w.leading == []
        await w.clock.sleep(10)
        assert [who for who, _, _ in w.leading] == ["b"]
        assert w.lease()["leaseTransitions"] == 5
        task.cancel()
        await asyncio.wait((task,))

    run_virtual(w.clock, main())


def test_holder_that_cannot_renew_steps_down_before_others_take_over() -> None:
    w = World()

    async def main() -> None:
        task = asyncio.create_task(w.lead(w.elector("a")))
        await w.clock.sleep(5)
        w.server.hold.clear()  # requests hang
        while not any(what == "ends" for _, what, _ in w.leading):
            await w.clock.sleep(0.5)
        assert w.clock.monotonic() < 5 + 15, "before the lease's 15 s are over"
        w.server.hold.set()
        with pytest.raises(LeadershipLost, match="ns/lock"):
            await task

    run_virtual(w.clock, main())


def test_conflicting_renewal_is_read_again_and_tried_again() -> None:
    w = World()

    async def main() -> None:
        task = asyncio.create_task(w.lead(w.elector("a")))
        await w.clock.sleep(1)
        held = w.server.objects[(LEASES, "ns", "lock")]
        w.server.put(LEASES, {**held, "metadata": {**held["metadata"], "labels": {"touched": "yes"}}})
        await w.clock.sleep(30)
        assert [what for _, what, _ in w.leading] == ["begins"]
        task.cancel()
        await asyncio.wait((task,))

    run_virtual(w.clock, main())


def test_a_renewal_under_way_does_not_keep_the_lease_from_being_released() -> None:
    """It has arrived at the server, but its answer has not: the revision we know is old."""
    w = World()

    async def main() -> None:
        leader = asyncio.create_task(w.lead(w.elector("a")))
        await w.clock.sleep(1)
        held = w.server.objects[(LEASES, "ns", "lock")]
        w.server.put(LEASES, {**held, "spec": {**held["spec"], "renewTime": "2026-01-01T00:00:00.000000Z"}})
        leader.cancel()
        await asyncio.wait((leader,))
        assert w.lease()["holderIdentity"] == ""

    run_virtual(w.clock, main())


def test_stolen_lease_ends_the_work() -> None:
    w = World()

    async def main() -> None:
        task = asyncio.create_task(w.lead(w.elector("a")))
        await w.clock.sleep(1)
        held = w.server.objects[(LEASES, "ns", "lock")]
        spec = {**held["spec"], "holderIdentity": "thief", "leaseDurationSeconds": 1000}
        w.server.put(LEASES, {**held, "spec": spec})
        with pytest.raises(LeadershipLost):
            await task
        assert w.clock.monotonic() < 10
        assert w.lease()["holderIdentity"] == "thief", "what is not ours is not released"

    run_virtual(w.clock, main())


def test_work_that_ends_releases_the_lease_and_passes_its_error_on() -> None:
    w = World()

    async def broken() -> None:
        raise ValueError("odd")

    async def main() -> None:
        elector = w.elector("a")
        await w.lead(elector, seconds=3)
        assert w.lease()["holderIdentity"] == ""
        with pytest.raises(ValueError, match="odd"):
            await elector.run(broken)
        assert w.lease()["holderIdentity"] == ""

    run_virtual(w.clock, main())


@pytest.mark.parametrize(
    "timing",
    [
        pytest.param({"duration_seconds": 10, "renew_deadline_seconds": 10}, id="deadline as long as the lease"),
        pytest.param({"renew_deadline_seconds": 2, "retry_seconds": 2}, id="deadline as short as a retry"),
        pytest.param({"retry_seconds": 0}, id="no pause between retries"),
    ],
)
def test_contradicting_durations_are_refused(timing: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        LeaseTiming(**timing)


def test_lease_kind_is_the_one_of_the_catalog() -> None:
    assert catalog.LEASE.path("ns", "lock") == "/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock"
