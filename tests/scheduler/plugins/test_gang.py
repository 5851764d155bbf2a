"""gang: when a group is valid, ready and starving, who of it may go, and what is said of it at the end of a cycle."""

from __future__ import annotations

from typing import Any

import pytest

from strato.scheduler.model.jobs import Job
from strato.scheduler.model.plan import GroupCondition
from strato.scheduler.model.reasons import Verdict
from strato.scheduler.plugins.gang import Gang
from strato.scheduler.session import Session
from tests.scheduler import worlds
from tests.scheduler.plugins import asking

Json = dict[str, Any]
FREE: Json = {"cpu": "", "memory": ""}
"""What a pod asks for that takes nothing of a node."""
OURS: Json = {"scheduler": "default-scheduler"}
"""Pods of this name need no group to be placed."""


def waits(name: str, group: str = "g", role: str = "", **more: Any) -> Json:
    return worlds.pod(name, group, annotations={"volcano.sh/task-spec": role} if role else {}, **more)


def runs(name: str, group: str = "g", role: str = "", **more: Any) -> Json:
    return waits(name, group, role, **{"phase": "Running", "nodeName": "n"} | more)


def opened(*objects: Json, minimum: int = 2, cpu: str = "9", **spec: Any) -> tuple[Session, Job, Gang]:
    world = worlds.world(worlds.node("n", cpu=cpu), worlds.queue(), worlds.group("g", minimum, **spec), *objects)
    ssn = asking.session(world, "gang", "predicates")
    (plugin,) = [one for one in ssn.plugins if isinstance(one, Gang)]
    return ssn, world.jobs["ns/g"], plugin


TOO_FEW = "Not enough valid tasks for gang-scheduling, valid: {}, min: {}"
OF_ROLES = "Not enough valid pods of each task for gang-scheduling"
VALIDITY: list[Any] = [
    pytest.param([waits("a"), waits("b")], {}, None, id="as many as it needs"),
    pytest.param([waits("a")], {}, ("NotEnoughTasks", TOO_FEW.format(1, 2)), id="one too few"),
    pytest.param([], {}, ("NotEnoughTasks", TOO_FEW.format(0, 2)), id="none"),
    pytest.param([waits("a"), runs("b")], {}, None, id="one runs"),
    pytest.param([waits("a"), runs("b", phase="Succeeded")], {}, None, id="one is done"),
    pytest.param([waits("a"), runs("b", phase="Failed")], {}, ("NotEnoughTasks", TOO_FEW.format(1, 2)), id="failed"),
    pytest.param(
        [waits("a"), runs("b", leaving=True)], {}, ("NotEnoughTasks", TOO_FEW.format(1, 2)), id="one is leaving"
    ),
    pytest.param(
        [waits("a", role="w"), waits("b", role="w")], {"minTaskMember": {"w": 1, "m": 1}},
        ("NotEnoughPodsOfTask", OF_ROLES), id="a role has none",
    ),
    pytest.param([waits("a", role="w"), waits("b", role="m")], {"minTaskMember": {"w": 1, "m": 1}}, None, id="of each"),
    pytest.param(
        [waits("a", role="w"), waits("b", role="w")], {"minTaskMember": {"w": 1, "m": 0}}, None, id="may be empty"
    ),
    pytest.param(
        [waits("a", role="w"), waits("b", role="w")], {"minTaskMember": {"w": 2, "m": 1}}, None,
        id="minima of roles beyond the group's own do not count",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "spec", "problem"), VALIDITY)
def test_whether_a_group_can_be_complete(pods: list[Json], spec: Json, problem: tuple[str, str] | None) -> None:
    _, job, gang = opened(*pods, **spec)
    answer = gang.job_valid(job)
    assert (None if answer is None else tuple(answer)) == problem


def part(*, size: int, minimum: int) -> list[Json]:
    return [{"name": "p", "matchLabelKeys": ["part"], "subGroupSize": size, "minSubGroups": minimum}]


@pytest.mark.parametrize(("minimum", "valid"), [(2, True), (3, False)], ids=["two parts", "three parts"])
def test_whether_enough_parts_can_be_complete(minimum: int, valid: bool) -> None:
    pods = [waits(name, labels={"part": name[0]}) for name in ("a1", "a2", "b1", "b2")]
    _, job, gang = opened(*pods, subGroupPolicy=part(size=2, minimum=minimum))
    answer = gang.job_valid(job)
    assert answer is None if valid else answer is not None and answer.reason == "NotEnoughPodsOfTask"


READINESS: list[Any] = [
    pytest.param([waits("a"), waits("b")], {}, (False, True, 1), id="none has a place"),
    pytest.param([runs("a"), waits("b")], {}, (False, True, 0), id="some have: it goes before those that have none"),
    pytest.param([runs("a"), runs("b")], {}, (True, False, 2), id="just its minimum"),
    pytest.param([runs("a"), runs("b"), waits("c")], {}, (True, False, 2), id="more than its minimum"),
    pytest.param([runs("a"), runs("b", phase="Succeeded")], {}, (True, False, 2), id="what is done had a place"),
    pytest.param([runs("a"), waits("b", **FREE)], {}, (True, True, 2), id="what asks for nothing has one anywhere"),
    pytest.param([runs("a"), runs("b", leaving=True)], {}, (False, True, 0), id="what leaves has none"),
    pytest.param(
        [runs("a", role="w"), runs("b", role="w")], {"minTaskMember": {"w": 1, "m": 1}}, (False, False, 2),
        id="a role has none",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "spec", "expected"), READINESS)
def test_readiness(pods: list[Json], spec: Json, expected: tuple[bool, bool, int]) -> None:
    _, job, gang = opened(*pods, **spec)
    assert (gang.job_ready(job), gang.job_starving(job), gang.job_order(job)) == expected
    assert (gang.job_pipelined(job) > 0) is expected[0], "without promises it is the same as being ready"


def test_promises_complete_a_minimum_but_do_not_make_ready() -> None:
    ssn, job, gang = opened(runs("a"), runs("gone", "", cpu="8", leaving=True), waits("b", cpu="8"))
    assert gang.job_pipelined(job) < 0
    ssn.statement().pipeline(asking.task(ssn, "b"), ssn.world.nodes.row_of["n"], evicted=False)
    assert (gang.job_ready(job), gang.job_pipelined(job) > 0, gang.job_starving(job)) == (False, True, False)


SPARED: list[Any] = [
    pytest.param(2, [runs("a"), runs("b")], [], id="none of just the minimum"),
    pytest.param(2, [runs("a"), runs("b"), runs("c")], ["a"], id="one beyond it: the first"),
    pytest.param(1, [runs("a"), runs("b"), runs("c")], ["a", "b"], id="two beyond it"),
    pytest.param(0, [runs("a"), runs("b")], ["a", "b"], id="all of a group without a minimum"),
    pytest.param(
        1,
        [runs("a"), runs("b"), runs("x", "", **OURS), runs("y", "", **OURS)],
        ["a", "x", "y"],
        id="pods without a group",
    ),
]


@pytest.mark.parametrize(("minimum", "pods", "victims"), SPARED)
def test_who_may_go(minimum: int, pods: list[Json], victims: list[str]) -> None:
    ssn, _, gang = opened(*pods, waits("p", "other"), worlds.group("other", 1), minimum=minimum)
    candidates = [asking.task(ssn, pod["metadata"]["name"]) for pod in pods]
    preemptor = asking.task(ssn, "p")
    assert asking.keys(gang.preemptable(preemptor, candidates)[0]) == victims
    assert asking.keys(gang.reclaimable(preemptor, candidates)[0]) == victims


def test_two_groups_each_keep_their_minimum() -> None:
    ssn, _, gang = opened(*[runs(f"g{i}") for i in range(3)], worlds.group("h", 1), runs("h0", "h"), runs("h1", "h"))
    candidates = [asking.task(ssn, name) for name in ("g0", "h0", "g1", "h1", "g2")]
    assert asking.keys(gang.preemptable(candidates[0], candidates)[0]) == ["g0", "h0"]


LACKING = "NotEnoughResources"


def condition(plan_of: Session, name: str = "g") -> GroupCondition | None:
    notes = plan_of.notes.get(f"ns/{name}")
    return None if notes is None else notes.condition


def test_a_complete_gang_is_called_scheduled() -> None:
    ssn, _, gang = opened(runs("a"), runs("b"))
    gang.close(ssn)
    found = condition(ssn)
    assert found is not None
    assert (found.type, found.status, found.reason) == ("Scheduled", "True", "tasks in gang are ready to be scheduled")


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        pytest.param([waits("a"), waits("b")], "2/2 tasks in gang unschedulable: ", id="none has a place"),
        pytest.param([runs("a"), waits("b"), waits("c")], "1/3 tasks in gang unschedulable: ", id="one has"),
        pytest.param([runs("a", leaving=True), waits("b")], "2/2 tasks in gang unschedulable: ", id="one leaves"),
        pytest.param([runs("a")], "1/1 tasks in gang unschedulable: ", id="one was never made"),
        pytest.param(
            [runs("a"), runs("b", leaving=True), waits("c")],
            "1/3 tasks in gang unschedulable: ",
            id="one leaves and its successor waits",
        ),
    ],
)
def test_an_incomplete_gang_says_how_many_lack(pods: list[Json], text: str) -> None:
    ssn, job, gang = opened(*pods)
    gang.close(ssn)
    found = condition(ssn)
    assert found is not None
    assert (found.type, found.status, found.reason) == ("Unschedulable", "True", LACKING)
    assert found.message.startswith(text + "pod group is not ready, ")
    (verdict,) = ssn.note(job).verdicts
    assert (verdict.plugin, verdict.code, verdict.text) == ("gang", LACKING, found.message)
    assert verdict.numbers == {"ready": job.ready, "min_available": 2, "tasks": len(pods)}
    assert ssn.note(job).fit_error == "", "the verdict itself says it"


def test_what_was_said_before_keeps_being_the_origin() -> None:
    ssn, job, gang = opened(waits("a"), waits("b"))
    ssn.record_verdict(job, Verdict("core", "Error", "it burns"))
    gang.close(ssn)
    assert ssn.note(job).fit_error.endswith("it burns")


QUIET: list[Any] = [
    pytest.param([], {}, id="a group without pods"),
    pytest.param([runs("a", leaving=True), runs("b", leaving=True)], {}, id="a complete gang that is leaving"),
    pytest.param([runs("a"), runs("b", leaving=True)], {}, id="a gang of which one is leaving, and none waits"),
]


@pytest.mark.parametrize(("pods", "spec"), QUIET)
def test_of_whom_nothing_is_said(pods: list[Json], spec: Json) -> None:
    ssn, _, gang = opened(*pods, **spec)
    gang.close(ssn)
    assert condition(ssn) is None


def test_pods_without_a_group_have_no_condition() -> None:
    world = worlds.world(worlds.node("n"), worlds.queue(), waits("solo", "", **OURS))
    ssn = asking.session(world, "gang")
    (gang,) = [one for one in ssn.plugins if isinstance(one, Gang)]
    assert world.jobs["ns/pod:solo"].solo
    gang.close(ssn)
    assert all(notes.condition is None for notes in ssn.notes.values())


@pytest.mark.parametrize(("phase", "stays"), [("Pending", True), ("Inqueue", False)])
def test_what_enqueue_said_stays_while_the_group_waits_for_its_queue(phase: str, stays: bool) -> None:
    ssn, job, gang = opened(waits("a"), waits("b"), phase=phase)
    said = GroupCondition("Unschedulable", "True", "NotEnqueued", "the queue is full")
    ssn.note(job).condition = said
    gang.close(ssn)
    assert (condition(ssn) is said) is stays


def test_pods_whose_group_is_not_known_yet_have_no_condition() -> None:
    ssn, _, gang = opened(waits("early", "later"))
    assert ssn.world.jobs["ns/later"].group is None
    gang.close(ssn)
    assert condition(ssn, "later") is None


def test_a_gang_that_was_nearly_placed_counts_these_as_found() -> None:
    world = worlds.world(
        worlds.node("n", cpu="1"), worlds.queue(), worlds.group("g", 2), waits("a"), waits("b", cpu="5")
    )
    plan = worlds.cycle(world, asking.config("gang", "predicates"))
    (status,) = plan.groups
    assert status.condition is not None
    assert status.condition.message.startswith("1/2 tasks in gang unschedulable: ")
