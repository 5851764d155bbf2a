"""One eviction, call by call: what is written, which events there are, what is tried again and what is given back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Pod
from strato.clock import VirtualClock, run_virtual
from strato.errors import ApiError, Conflict, Forbidden, NotFound, Unavailable
from strato.scheduler.binding.evictor import PodEvictor
from strato.scheduler.cache.world import World
from strato.scheduler.model.plan import Eviction
from strato.scheduler.model.tasks import RELEASING, RUNNING, STATUS_NAMES
from tests.scheduler import worlds

Json = dict[str, Any]


class Fake:
    """API, recorder and reporter in one: answers deletions in turn and keeps what it is told."""

    def __init__(self, *answers: ApiError | None) -> None:
        self.answers = list(answers)
        self.fresh: Pod | ApiError = Unavailable("away")
        self.patches: list[Json] = []
        self.deleted: list[str] = []
        self.events: list[tuple[str, str, str, str]] = []
        self.stayed: list[list[Json]] = []
        self.left: list[str] = []
        self.refused: list[str] = []

    async def patch(self, _kind: object, name: str, namespace: str, body: Json, **_how: Any) -> None:
        self.patches.append(body)

    async def delete(self, _kind: object, name: str, namespace: str, *, uid: str) -> None:
        self.deleted.append(uid)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    async def get(self, _kind: object, name: str, namespace: str) -> Pod:
        if isinstance(self.fresh, ApiError):
            raise self.fresh
        return self.fresh

    def event(self, regarding: Any, kind: str, reason: str, message: str) -> None:
        self.events.append((regarding.metadata.name, kind, reason, message))

    def eviction_begins(self, task: Any) -> None:
        self.left.append(task.name)

    def eviction_refused(self, task: Any, conditions: list[Json]) -> None:
        self.stayed.append(conditions)


def running(**status: Any) -> Json:
    victim = worlds.pod("v", "low", phase="Running", nodeName="n")
    victim["status"] |= status
    return victim


def setting(*objects: Json, beneficiary: str = "", moves_to: str = "") -> tuple[World, Eviction]:
    world = worlds.world(worlds.node("n"), worlds.queue(), *(objects or (worlds.group("low", 0), running())))
    task = world.tasks["ns/v"]
    world.move(task, RELEASING, task.row)
    world.evictions.begin(task, beneficiary)
    return world, Eviction(task, "a reason", "preempt", beneficiary, moves_to)


def tried(world: World, eviction: Eviction, api: Fake, times: int = 1) -> list[float | None]:
    clock = VirtualClock()
    evictor = PodEvictor(
        api, clock, world, api, api, lambda one: api.refused.append(one.task.name),  # type: ignore[arg-type]  # values of a table
    )  # fmt: skip
    waits: list[float | None] = []

    async def main() -> None:
        waits.extend([await evictor.evict(eviction) for _ in range(times)])

    run_virtual(clock, main())
    return waits


def test_the_pod_and_its_group_get_an_event_and_the_pod_its_conditions() -> None:
    world, eviction = setting()
    api = Fake()
    assert tried(world, eviction, api) == [None]
    assert api.events == [
        ("v", "Warning", "Evict", "Pod is evicted, because of a reason"),
        ("low", "Normal", "Evict", "a reason"),
    ]
    assert api.left == ["v"]
    assert api.deleted == ["ns-v"]
    assert [body["metadata"]["uid"] for body in api.patches] == ["ns-v"]
    conditions = {one["type"]: one for one in api.patches[0]["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", "Evict")
    assert (conditions["DisruptionTarget"]["status"], conditions["DisruptionTarget"]["reason"]) == (
        "True", "PreemptionByScheduler",
    )  # fmt: skip
    assert conditions["DisruptionTarget"]["message"] == "volcano: preempting to accommodate a higher priority pod"


def test_a_place_that_is_kept_for_the_successor_is_named() -> None:
    world, eviction = setting(moves_to="n2")
    api = Fake()
    tried(world, eviction, api)
    kept = "Pod is evicted, because of a reason; a place for its successor is kept on n2"
    assert api.events[0] == ("v", "Warning", "Evict", kept)
    ready, disruption = api.patches[0]["status"]["conditions"]
    assert (ready["message"], disruption["message"]) == (
        kept, "volcano: making room; n2 has a place for its successor",
    )  # fmt: skip


@pytest.mark.parametrize("group", [False, True], ids=["no group", "a group that nobody has made"])
def test_a_pod_without_a_group_has_an_event_of_its_own_only(group: bool) -> None:
    victim = running()
    if not group:
        del victim["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    world, eviction = setting(victim)
    api = Fake()
    assert tried(world, eviction, api) == [None]
    assert [name for name, *_ in api.events] == ["v"]


def test_who_has_gone_is_not_evicted_and_not_given_back() -> None:
    world, eviction = setting()
    world.evictions.confirm("ns/v")
    api = Fake()
    assert tried(world, eviction, api) == [None]
    assert (api.events, api.patches, api.deleted, api.refused) == ([], [], [], [])


def test_a_pod_that_is_gone_is_left_to_the_watch() -> None:
    world, eviction = setting()
    api = Fake(NotFound("gone"))
    assert tried(world, eviction, api) == [None]
    assert (api.stayed, api.refused, STATUS_NAMES[eviction.task.status]) == ([], [], STATUS_NAMES[RELEASING])


BENEFICIARIES = [
    pytest.param([], True, id="gone"),
    pytest.param([worlds.pod("h", phase="Running", nodeName="n")], True, id="runs"),
    pytest.param([worlds.pod("h", nodeName="n")], True, id="is bound"),
    pytest.param([worlds.pod("h", phase="Succeeded", nodeName="n")], True, id="is done"),
    pytest.param([worlds.pod("h", phase="Failed", nodeName="n")], True, id="has failed"),
    pytest.param([worlds.pod("h")], False, id="waits"),
]


@pytest.mark.parametrize(("objects", "needless"), BENEFICIARIES)
def test_nobody_is_evicted_for_a_pod_that_needs_no_place_any_more(objects: list[Json], needless: bool) -> None:
    world, eviction = setting(worlds.group("low", 0), running(), *objects, beneficiary="ns/h")
    api = Fake()
    assert tried(world, eviction, api) == [None]
    assert (api.deleted == [], api.refused == ["v"], api.events == []) == (needless, needless, needless)
    assert (eviction.task.status == RUNNING) is needless
    assert ("ns/v" in world.evictions.refusals) is needless


def test_what_is_not_known_is_tried_again_later_and_later_with_one_event() -> None:
    world, eviction = setting()
    api = Fake(*[Unavailable("away")] * 3)
    waits = tried(world, eviction, api, times=4)
    first, second, third = (wait for wait in waits[:3] if wait is not None)
    assert 0 < first < second < third
    assert waits[3] is None
    assert [reason for name, _, reason, _ in api.events if name == "v"] == ["Evict"]
    assert len(api.deleted) == 4
    assert api.refused == []


def test_a_refusal_restores_the_pod_and_says_why() -> None:
    before = {"type": "Ready", "status": "True", "reason": "Fine"}
    world, eviction = setting(worlds.group("low", 0), running(conditions=[before]))
    api = Fake(Forbidden("a webhook says no"))
    assert tried(world, eviction, api) == [None]
    assert api.events[-1][:3] == ("v", "Warning", "EvictFailed")
    assert "a webhook says no" in api.events[-1][3]
    disruption, ready = api.stayed[0]
    assert (disruption["type"], disruption["status"], disruption["reason"]) == (
        "DisruptionTarget",
        "False",
        "EvictFailed",
    )
    assert (ready["type"], ready["status"], ready["reason"], ready["message"]) == ("Ready", "True", "Fine", None)
    assert (api.refused, eviction.task.status) == (["v"], RUNNING)
    assert "ns/v" in world.evictions.refusals
    assert "low" not in [name for name, *_ in api.events]


def test_a_pod_that_had_no_ready_condition_has_none_again() -> None:
    world, eviction = setting()
    api = Fake(Forbidden("no"))
    tried(world, eviction, api)
    assert api.stayed[0][1:] == [{"$patch": "delete", "type": "Ready"}]


CONFLICTS: list[Any] = [
    pytest.param({}, 5, id="it runs"),
    pytest.param({"uid": "another"}, 99, id="another pod has its name"),
    pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 99, id="it is being deleted"),
    pytest.param(NotFound("gone"), 99, id="it is gone"),
    pytest.param(Unavailable("away"), 99, id="nobody knows"),
]


@pytest.mark.parametrize(("fresh", "tries"), CONFLICTS)
def test_a_conflict_is_tried_again_unless_the_pod_just_runs_on(fresh: Json | ApiError, tries: int) -> None:
    world, eviction = setting()
    api = Fake(*[Conflict("changed")] * 8)
    api.fresh = fresh if isinstance(fresh, ApiError) else msgspec.convert(
        {"metadata": {"name": "v", "uid": "ns-v", **fresh}, "spec": {}}, Pod
    )  # fmt: skip
    waits = tried(world, eviction, api, times=7)
    assert [wait is not None for wait in waits] == [at < tries for at in range(7)]
    assert (api.refused == ["v"]) is (tries < 7)
