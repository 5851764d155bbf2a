"""The pure decisions of the job controller, table by table (volcano-controllers A1, A2, A4 to A6, A10, A11)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.volcano.batch import Job, JobStatus, LifecyclePolicy
from strato.controllers.job.compiledspec import CACHED_SPECS, CompiledSpecs
from strato.controllers.job.delays import DelayedActions
from strato.controllers.job.group import group_spec, min_resources
from strato.controllers.job.kill import plan_full_kill, plan_target_kill
from strato.controllers.job.plugins.arguments import parse_flags
from strato.controllers.job.podevents import pod_request
from strato.controllers.job.pods import PodState, TaskPods
from strato.controllers.job.policies import JobPolicies
from strato.controllers.job.requests import Request, Target
from strato.controllers.job.states import (
    Counts,
    JobFacts,
    Procedure,
    TaskFacts,
    after_restart,
    after_sync_running,
    operation,
)
from strato.controllers.job.status import StatusCache
from strato.controllers.job.sync import dependencies_met
from strato.controllers.job.terms import JobAction, JobEvent, Phase
from tests.controllers.world import task, vcjob

ALL_ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
    "SyncJob",
    "EnqueueJob",
)
NOTHING = Counts(status_min_available=2)
GANG = JobFacts((TaskFacts("w", 2, None),), 2, 3)

_SYNC = (Procedure.SYNC, None)
_SOFT = Procedure.KILL_UNFINISHED
_ACTIVE: dict[str, tuple[Procedure, str | None]] = {
    "RestartJob": (Procedure.KILL_ALL, "Restarting"),
    "RestartTask": (Procedure.KILL_TARGET, "Restarting"),
    "RestartPod": (Procedure.KILL_TARGET, "Restarting"),
    "RestartPartition": (Procedure.KILL_TARGET, "Restarting"),
    "AbortJob": (_SOFT, "Aborting"),
    "CompleteJob": (_SOFT, "Completing"),
    "TerminateJob": (_SOFT, "Terminating"),
}
_RESTARTING: dict[str, tuple[Procedure, str | None]] = {
    "SyncJob": (Procedure.SYNC, "Pending"),
    "RestartTask": (Procedure.KILL_TARGET, "Pending"),
    "RestartPod": (Procedure.KILL_TARGET, "Pending"),
    "RestartPartition": (Procedure.KILL_TARGET, "Pending"),
}


def expected(phase: str, action: str) -> tuple[Procedure, str | None]:
    """The table of A4 for a job without pods and with retries left."""
    match phase:
        case "" | "Pending" | "Running":
            return _ACTIVE.get(action, _SYNC)
        case "Restarting":
            return _RESTARTING.get(action, (Procedure.KILL_ALL, "Pending"))
        case "Aborting":
            return _SOFT, "Restarting" if action == "ResumeJob" else "Aborted"
        case "Aborted":
            return _SOFT, "Restarting" if action == "ResumeJob" else None
        case "Completing":
            return _SOFT, "Completed"
        case "Terminating":
            return _SOFT, "Terminated"
    return _SOFT, None


PHASES = ("", "Pending", "Running", "Restarting", "Aborting", "Aborted", "Completing", "Completed")
PHASES += ("Terminating", "Terminated", "Failed")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("action", ALL_ACTIONS)
def test_every_state_and_action(phase: str, action: str) -> None:
    procedure, after = expected(phase, action)
    found = operation(phase, action)
    outcome = found.transition(GANG, NOTHING, 1)
    assert found.procedure is procedure
    assert (outcome.phase if outcome else None) == after
    if after == "Restarting":
        assert outcome is not None
        assert outcome.retry_count == 2


@pytest.mark.parametrize("phase", ["Aborting", "Completing", "Terminating"])
@pytest.mark.parametrize("counter", ["pending", "running", "terminating"])
def test_leaving_waits_for_the_last_pod(phase: str, counter: str) -> None:
    assert operation(phase, "SyncJob").transition(GANG, Counts(**{counter: 1}), 0) is None


@pytest.mark.parametrize(
    ("terminating", "retries", "want"),
    [
        pytest.param(0, 3, Phase.FAILED, id="out of retries"),
        pytest.param(0, 2, Phase.PENDING, id="nothing terminates"),
        pytest.param(1, 0, None, id="the gang is not whole while one pod terminates"),
    ],
)
def test_restart_rule(terminating: int, retries: int, want: str | None) -> None:
    outcome = after_restart(GANG, Counts(terminating=terminating, status_min_available=2), retries)
    assert (outcome.phase if outcome else None) == want


COMPLETION = [
    pytest.param({"tasks": [(0, None)]}, {}, None, id="scaled to zero keeps its phase"),
    pytest.param({"min_success": 1}, {"succeeded": 1, "running": 1}, "Completed", id="enough successes complete early"),
    pytest.param({}, {"succeeded": 2}, "Completed", id="all succeeded"),
    pytest.param({}, {"succeeded": 1, "failed": 1}, "Failed", id="one of a whole gang failed"),
    pytest.param({"min_available": 1}, {"succeeded": 1, "failed": 1}, "Completed", id="minAvailable succeeded"),
    pytest.param(
        {"tasks": [(2, 2)], "min_available": 2},
        {"succeeded": 1, "failed": 1},
        "Failed",
        id="a task misses its own minimum",
    ),
    pytest.param({"min_success": 2}, {"succeeded": 1, "failed": 1}, "Failed", id="too few successes"),
    pytest.param({}, {"pending": 1, "running": 1}, "Pending", id="a pod of the gang fell back to pending"),
    pytest.param({"min_available": 1}, {"pending": 1, "running": 1}, None, id="a spare pod may be pending"),
    pytest.param({}, {"running": 2}, None, id="running goes on"),
]


@pytest.mark.parametrize(("spec", "counters", "want"), COMPLETION)
def test_completion_rule(spec: dict[str, Any], counters: dict[str, int], want: str | None) -> None:
    tasks = tuple(TaskFacts("w", *t) for t in spec.get("tasks", [(2, None)]))
    facts = JobFacts(tasks, spec.get("min_available", 2), 3, spec.get("min_success"))
    counts = Counts(**counters, task_succeeded={"w": counters.get("succeeded", 0)})
    outcome = after_sync_running(facts, counts, 0)
    assert (outcome.phase if outcome else None) == want


def policy(**fields: Any) -> LifecyclePolicy:
    return LifecyclePolicy(**fields)


POLICY_CASES = [
    pytest.param([], [policy(event="PodFailed", action="RestartJob")], {"event": "PodFailed"}, "RestartJob", id="job"),
    pytest.param(
        [policy(event="PodFailed", action="RestartTask")],
        [policy(event="PodFailed", action="RestartJob")],
        {"event": "PodFailed"},
        "RestartTask",
        id="the task's policy comes first",
    ),
    pytest.param(
        [policy(event="PodEvicted", action="RestartTask")],
        [policy(event="PodFailed", action="RestartJob")],
        {"event": "PodFailed"},
        "RestartJob",
        id="a task policy that does not match leaves it to the job",
    ),
    pytest.param([], [policy(event="*", action="AbortJob")], {"event": "PodEvicted"}, "AbortJob", id="wildcard"),
    pytest.param([], [policy(event="*", action="AbortJob")], {"event": ""}, "SyncJob", id="no wildcard for no event"),
    pytest.param([], [policy(event="*", action="AbortJob")], {"event": "OutOfSync"}, "SyncJob", id="always sync"),
    pytest.param([], [policy(event="*", action="AbortJob")], {"event": "PodRunning"}, "SyncJob", id="running syncs"),
    pytest.param(
        [], [policy(event="PodPending", action="AbortJob")], {"event": "PodPending"}, "SyncJob", id="pending needs time"
    ),
    pytest.param(
        [],
        [policy(event="PodPending", action="AbortJob", timeout="10s")],
        {"event": "PodPending"},
        "AbortJob",
        id="pending with a timeout",
    ),
    pytest.param(
        [], [policy(exit_code=3, action="AbortJob")], {"event": "PodFailed", "exit_code": 3}, "AbortJob", id="exit code"
    ),
    pytest.param(
        [], [policy(exit_code=3, action="AbortJob")], {"event": "PodFailed", "exit_code": 4}, "SyncJob", id="other code"
    ),
    pytest.param(
        [],
        [policy(event="*", action="AbortJob")],
        {"event": "PodFailed", "job_version": 0},
        "SyncJob",
        id="old version",
    ),
    pytest.param(
        [], [policy(event="*", action="AbortJob")], {"event": "PodFailed", "job_uid": "old"}, "SyncJob", id="other life"
    ),
    pytest.param([], [], {"action": "ResumeJob", "job_version": 0}, "ResumeJob", id="a command ignores versions"),
]


@pytest.mark.parametrize(("tasks", "job", "request_fields", "want"), POLICY_CASES)
def test_policy_matching(tasks: list[Any], job: list[Any], request_fields: dict[str, Any], want: str) -> None:
    policies = JobPolicies(job, [("w", tasks)])
    request = Request(**{"task": "w", "job_uid": "u", "job_version": 1, **request_fields})
    decision = policies.match(request, job_uid="u", job_version=1)
    assert decision.action == want
    if want not in ("SyncJob", "ResumeJob"):
        assert policies.may_match(request.event, request.exit_code)


def pod(index: int, phase: str = "Running", **fields: Any) -> PodState:
    state = PodState(f"j-w-{index}", "w", index)
    state.uid, state.phase = f"u{index}", phase
    for name, value in fields.items():
        setattr(state, name, value)
    return state


EVENTS = [
    pytest.param(None, pod(0, "Pending"), "PodPending", id="added"),
    pytest.param(None, pod(0, "Running"), "PodRunning", id="found running after a restart"),
    pytest.param(None, pod(0, "Failed", exit_code=7), "PodFailed", id="found failed after a restart"),
    pytest.param(pod(0, "Pending"), pod(0, "Running"), "PodRunning", id="started"),
    pytest.param(pod(0), pod(0, "Failed", exit_code=7), "PodFailed", id="failed"),
    pytest.param(pod(0), pod(0, "Succeeded"), "TaskCompleted", id="the last of the task succeeded"),
    pytest.param(pod(0), pod(0, restarts=3), "TaskFailed", id="restarted too often"),
    pytest.param(pod(0), pod(0, restarts=2), "OutOfSync", id="restarted, but not too often"),
    pytest.param(pod(0), pod(0, "Failed", out_of_sync=True), "OutOfSync", id="marked pods trigger nothing"),
    pytest.param(pod(0), None, "PodEvicted", id="deleted"),
    pytest.param(pod(0, out_of_sync=True), None, "OutOfSync", id="deleted by us"),
    pytest.param(pod(1), None, "OutOfSync", id="scaled down"),
]


@pytest.mark.parametrize(("old", "new", "want"), EVENTS)
def test_events_of_pods(old: PodState | None, new: PodState | None, want: str) -> None:
    pods = TaskPods("w", 1)
    if new is not None:
        pods.put(new)
    request = pod_request(old, new, pods, max_retry=3)
    assert request.event == want
    assert request.exit_code == (7 if want == JobEvent.POD_FAILED else 0)


def test_full_kill_retains_by_action_and_on_the_last_retry() -> None:
    pods = [pod(0), pod(1, "Succeeded"), pod(2, "Failed"), pod(3, terminating=True)]

    def killed(procedure: Procedure, retries: int) -> list[int]:
        plan = plan_full_kill(pods, procedure, retry_count=retries, max_retry=3)
        assert plan.terminating == 1
        return [p.index for p in plan.delete]

    assert killed(Procedure.KILL_ALL, 0) == [0, 1, 2]
    assert killed(Procedure.KILL_ALL, 2) == [0]
    assert killed(Procedure.KILL_UNFINISHED, 0) == [0]


def test_target_kill_takes_the_part_it_names() -> None:
    tasks = {"w": TaskPods("w", 4)}
    for index in range(4):
        tasks["w"].put(pod(index, partition=str(index // 2)))

    def killed(action: str, target: Target) -> list[int] | None:
        plan = plan_target_kill(tasks, action, target)
        return None if plan is None else [p.index for p in plan.delete]

    assert killed(JobAction.RESTART_TASK, Target("w")) == [0, 1, 2, 3]
    assert killed(JobAction.RESTART_TASK, Target("x")) == []
    assert killed(JobAction.RESTART_POD, Target("w", "j-w-2")) == [2]
    assert killed(JobAction.RESTART_PARTITION, Target("w", "", "1")) == [2, 3]
    assert killed(JobAction.RESTART_PARTITION, Target("w", "", "9")) is None


def test_delayed_actions_are_cancelled_by_what_makes_them_pointless() -> None:
    delays = DelayedActions()
    pending = Request(event="PodPending", pod="p", pod_uid="u")
    entry = delays.add("AbortJob", pending)
    assert entry is not None
    assert delays.add("AbortJob", pending) is None, "the timer of the first goes on"
    delays.observe(Request(event="PodRunning", pod="p", pod_uid="other"))
    assert delays, "another pod of that name does not count"
    delays.observe(Request(event="PodRunning", pod="p", pod_uid="u"))
    assert not delays
    assert not delays.due(entry)
    one = delays.add("RestartTask", Request(event="PodFailed", pod="a", task="t"))
    two = delays.add("RestartTask", Request(event="PodFailed", pod="b", task="s"))
    delays.done("RestartTask", Target("t"))
    assert one is not None
    assert two is not None
    assert (delays.due(one), delays.due(two)) == (False, True)


def test_two_delayed_actions_of_one_pod_are_each_due_and_its_events_cancel_the_last() -> None:
    failed, evicted = (Request(event=event, pod="p", pod_uid="u", task="t") for event in ("PodFailed", "PodEvicted"))
    delays = DelayedActions()
    first, last = delays.add("RestartPod", failed), delays.add("RestartTask", evicted)
    assert first is not None
    assert last is not None
    assert delays.add("RestartTask", failed) is None
    delays.observe(Request(event="PodRunning", pod="p", pod_uid="u"))
    assert (delays.due(first), delays.due(last), bool(delays)) == (True, False, False)
    first = delays.add("RestartPod", failed)
    delays.add("RestartTask", evicted)
    assert first is not None
    assert delays.due(first)
    assert delays.add("RestartTask", failed) is None, "an earlier one that is due leaves the last one in its place"
    delays.done("RestartTask", Target("t"))
    assert not delays
    assert delays.add("RestartTask", failed) is not None


LEVELS = [
    pytest.param("RestartTask", Target("t", "p", "1"), {"task"}, id="a task"),
    pytest.param("RestartTask", Target("s", "p", "1"), set(), id="another task"),
    pytest.param("RestartPod", Target("t", "p", "1"), {"pod"}, id="a pod"),
    pytest.param("RestartPod", Target("t", "q", "1"), set(), id="another pod"),
    pytest.param("RestartPartition", Target("t", "p", "1"), {"partition"}, id="a partition"),
    pytest.param("RestartPartition", Target("t", "p", "0"), set(), id="another partition"),
    pytest.param("AbortJob", Target(), {"job", "end"}, id="the job, whatever the action"),
    pytest.param("SyncJob", Target("t", "p", "1"), set(), id="an action of the controller's own"),
]


@pytest.mark.parametrize(("action", "target", "cancelled"), LEVELS)
def test_an_action_cancels_those_at_its_level(action: str, target: Target, cancelled: set[str]) -> None:
    delays = DelayedActions()
    actions = {"task": "RestartTask", "pod": "RestartPod", "partition": "RestartPartition", "job": "RestartJob"}
    entries = {
        name: delays.add(one, Request(event="PodFailed", pod="p", task="t", partition="1"))
        for name, one in {**actions, "end": "TerminateJob"}.items()
    }
    delays.done(action, target)
    assert {name for name, entry in entries.items() if entry is not None and not delays.due(entry)} == cancelled
    assert not delays


def test_nothing_of_a_job_that_is_gone_is_due() -> None:
    delays = DelayedActions()
    delays.clear()
    entries = [delays.add("RestartPod", Request(event="PodFailed", pod=pod)) for pod in "ab"]
    delays.clear()
    assert [entry is not None and delays.due(entry) for entry in entries] == [False, False]


def job(*tasks: dict[str, Any], **spec: Any) -> Job:
    return msgspec.convert(vcjob("j", *tasks, **spec), Job)


def test_min_resources_prefer_important_tasks_and_task_minima() -> None:
    def sized(name: str, cpu: str, priority: str, **more: Any) -> dict[str, Any]:
        made = task(name, 3, **more)
        spec = made["template"]["spec"]
        spec["priorityClassName"] = priority
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": "1Gi"}}
        return made

    def priority_of(name: str) -> int:
        return {"high": 10, "low": 1}[name]

    tasks = (sized("a", "1", "low"), sized("b", "10", "high"))
    usage = min_resources(job(*tasks, minAvailable=4), priority_of)
    assert str(usage["cpu"]) == "31"
    assert str(usage["requests.cpu"]) == "31"
    assert str(usage["limits.memory"]) == "4Gi"
    assert str(usage["pods"]) == "4"
    tasks = (sized("a", "1", "low", minAvailable=1), sized("b", "10", "high", minAvailable=1))
    assert str(min_resources(job(*tasks, minAvailable=3), priority_of)["cpu"]) == "21"


def test_partitions_become_sub_groups() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 4, "minPartitions": 1, "networkTopology": {"mode": "soft"}}
    spec = group_spec(job(task("w", 8, partitionPolicy=policy), minAvailable=4), lambda name: 0)
    assert spec["minTaskMember"] == {"w": 4}
    assert spec["subGroupPolicy"] == [
        {
            "name": "w",
            "subGroupSize": 4,
            "minSubGroups": 1,
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "networkTopology": {"mode": "soft"},
        }
    ]


LARGER = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "7"}}}]}}


def test_jobs_with_equal_specs_share_what_follows_from_them() -> None:
    forms = CompiledSpecs()
    first = forms.of(job(task("w", 2), minAvailable=1))
    assert forms.of(job(task("w", 2), minAvailable=1)) is first
    assert first.spec.scheduler_name == "volcano"
    assert first.replicas == {"w": 2}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"minAvailable": 2}, id="another gang"),
        pytest.param({"maxRetry": 9}, id="more retries"),
        pytest.param({"plugins": {"env": []}}, id="a plugin"),
        pytest.param({"policies": [{"event": "PodFailed", "action": "AbortJob"}]}, id="a policy"),
        pytest.param({"tasks": [task("w", 2, template=LARGER)]}, id="larger pods"),
        pytest.param({"tasks": [task("w", 2), task("v", 1)]}, id="one more task"),
    ],
)
def test_jobs_with_other_specs_have_forms_of_their_own(other: dict[str, Any]) -> None:
    forms = CompiledSpecs()
    first = forms.of(job(task("w", 2), minAvailable=1))
    second = forms.of(job(**{"tasks": [task("w", 2)], "minAvailable": 1, **other}))
    assert second is not first
    assert second.written != first.written
    assert forms.of(job(task("w", 2), minAvailable=1)).written == first.written


def test_forms_of_long_ago_are_forgotten() -> None:
    forms = CompiledSpecs()
    first = forms.of(job(task("w", 1)))
    for replicas in range(2, CACHED_SPECS + 3):
        forms.of(job(task("w", replicas)))
    assert forms.of(job(task("w", 1))) is not first


def test_a_priority_that_changed_asks_for_another_group() -> None:
    made = task("w", 1)
    made["template"]["spec"]["priorityClassName"] = "p"
    one = job(made, task("v", 1), minAvailable=1)
    compiled = CompiledSpecs().of(one)
    wanted = compiled.group(one, lambda name: 0)
    assert compiled.group(one, lambda name: 0) is wanted
    assert compiled.group(one, lambda name: 5 if name == "p" else 0) is not wanted


@pytest.mark.parametrize(
    ("iteration", "ready", "want"),
    [("any", {"a"}, True), ("any", set(), False), ("all", {"a"}, False), ("", {"a", "b"}, True), ("", {"a"}, False)],
)
def test_dependencies(iteration: str, ready: set[str], want: bool) -> None:
    made = job(
        task("a", 1, minAvailable=1),
        task("b", 1, minAvailable=1),
        task("c", 1, dependsOn={"name": ["a", "b"], "iteration": iteration}),
    )
    tasks = {name: TaskPods(name, 1) for name in "abc"}
    for name in ready:
        state = PodState(f"j-{name}-0", name, 0)
        state.ready = True
        tasks[name].put(state)
    assert dependencies_met(made.spec.tasks[2], made, tasks) is want


@pytest.mark.parametrize(
    ("arguments", "want", "complaint"),
    [
        (["--port=3", "--on"], {"port": 3, "on": True, "name": "x"}, ""),
        (["-name", "y", "--on=false"], {"port": 1, "on": False, "name": "y"}, ""),
        (["--port=2", "--what=1", "--name=z"], {"port": 2, "on": False, "name": "x"}, "not defined: -what"),
        (["--port=two"], {"port": 1, "on": False, "name": "x"}, "invalid value 'two'"),
        (["--name"], {"port": 1, "on": False, "name": "x"}, "needs an argument"),
    ],
)
def test_plugin_arguments(arguments: list[str], want: dict[str, Any], complaint: str) -> None:
    values, wrong = parse_flags(arguments, {"port": 1, "on": False, "name": "x"})
    assert values == want
    assert complaint in wrong


PODS = st.builds(
    lambda index, phase, terminating, out, restarts, ready: pod(
        index, phase, terminating=terminating, out_of_sync=out, restarts=restarts, ready=ready
    ),
    st.integers(0, 6),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
)
STEPS = st.lists(st.one_of(PODS, st.integers(0, 6).map(lambda n: f"j-w-{n}"), st.integers(0, 5)), max_size=40)


@given(STEPS)
def test_counters_always_equal_a_recount(steps: list[PodState | str | int]) -> None:
    """Whatever comes, goes and is resized, the running numbers are those of counting from scratch."""
    counted = TaskPods("w", 3)
    for step in steps:
        if isinstance(step, PodState):
            counted.put(step)
        elif isinstance(step, str):
            counted.remove(step)
        else:
            counted.resize(step)
    fresh = TaskPods("w", counted.replicas)
    for state in counted.pods.values():
        fresh.put(state)
    for name in ("phases", "terminating", "present", "surplus", "stale", "restarts", "ready"):
        assert getattr(counted, name) == getattr(fresh, name), name
    assert list(counted.missing("j")) == [i for i in range(counted.replicas) if f"j-w-{i}" not in counted.pods]


def test_a_remembered_status_follows_from_its_own_predecessor_only() -> None:
    known, made = StatusCache(), []

    def make() -> dict[str, Any]:
        made.append(len(made))
        return {"running": len(made), "state": {"phase": "Running"}}

    one = known.of("key", JobStatus(pending=1), make)
    assert one.body == b'{"running":1,"state":{"phase":"Running"}}'
    assert (one.status.running, one.status.state.phase) == (1, "Running")
    assert known.of("key", JobStatus(pending=1), make) is one
    for key, before in (("key", JobStatus(pending=2)), ("other", JobStatus(pending=1)), ("key", JobStatus(version=1))):
        assert known.of(key, before, make) is not one
    assert len(made) == 4
