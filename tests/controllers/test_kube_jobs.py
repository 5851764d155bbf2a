"""batch/v1 Jobs and CronJobs on the embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api import catalog
from strato.api.batch import (
    CronJob,
    ExitCodes,
    Job,
    JobSpec,
    PodConditionPattern,
    PodFailurePolicy,
    PodFailureRule,
    SuccessPolicy,
    SuccessRule,
)
from strato.api.core import ContainerState, ContainerStatus, Pod, PodSpec
from strato.api.core.container import StateTerminated
from strato.api.core.pod import PodStatus, PodTemplateSpec
from strato.api.meta import Condition, ObjectMeta
from strato.controllers.kube.jobplan import (
    PodCounts,
    backoff_seconds,
    format_indexes,
    steps,
    tally,
    verdict,
)
from strato.controllers.kube.jobpolicies import FAILURES_KEY, INDEX_KEY, judge, parse_indexes, succeeds_early
from strato.errors import NotFound
from tests.controllers.world import World, play

ENABLED = ("kube-job-controller", "kube-cronjob-controller", "kube-garbage-collector")


@given(st.sets(st.integers(0, 300)))
def test_indexes_read_as_written(indexes: set[int]) -> None:
    assert set(parse_indexes(format_indexes(indexes), 301)) == indexes


@pytest.mark.parametrize(("indexes", "text"), [([0, 1], "0,1"), ([0, 1, 2, 5], "0-2,5"), ([], "")])
def test_format_indexes(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text


def pod(name: str, index: int | None = None, phase: str = "Running") -> Pod:
    annotations = {} if index is None else {INDEX_KEY: str(index)}
    return Pod(metadata=ObjectMeta(name=name, uid=name, annotations=annotations), status=PodStatus(phase=phase))


def counted(active: int = 0, succeeded: int = 0, failed: int = 0, **more: Any) -> PodCounts:
    pods = more.pop("pods", tuple(pod(f"p{i}") for i in range(active)))
    return PodCounts(
        pods, more.pop("terminating", 0), succeeded, failed, 0, more.pop("restarts", 0), frozenset(more.pop("done", ()))
    )


def job(**spec: Any) -> Job:
    policy = spec.pop("policy", "Never")
    template = PodTemplateSpec(spec=PodSpec(restart_policy=policy))
    return Job(spec=JobSpec(**{"completions": 3, "parallelism": 2, "template": template, **spec}))


@pytest.mark.parametrize(
    ("spec", "tally", "create", "delete"),
    [
        pytest.param({}, counted(), 2, 0, id="up to the parallelism"),
        pytest.param({}, counted(active=1, succeeded=2), 0, 0, id="no more than are missing"),
        pytest.param({}, counted(active=2, succeeded=2), 0, 1, id="one too many goes"),
        pytest.param({"suspend": True}, counted(active=2), 0, 2, id="suspended ones go"),
        pytest.param({"completions": None}, counted(active=1, succeeded=1), 0, 0, id="a work queue runs dry"),
        pytest.param({"completions": None}, counted(active=1), 1, 0, id="a work queue is filled"),
        pytest.param({"parallelism": 0}, counted(active=1), 0, 1, id="no parallelism"),
    ],
)
def test_steps(spec: dict[str, Any], tally: PodCounts, create: int, delete: int) -> None:
    planned = steps(job(**spec), tally, tally.active)
    assert (len(planned.create), len(planned.delete)) == (create, delete)


def test_indexes_are_filled_from_the_first_that_is_missing() -> None:
    spec = {"completions": 5, "parallelism": 3, "completion_mode": "Indexed"}
    twice = (pod("a", 3), pod("b", 3))
    planned = steps(job(**spec), counted(pods=twice, succeeded=1, done={0}), twice)
    assert planned.create == [1, 2]
    assert len(planned.delete) == 1


@pytest.mark.parametrize(
    ("spec", "tally", "elapsed", "reason"),
    [
        pytest.param({}, counted(succeeded=3), 0, "CompletionsReached", id="all done"),
        pytest.param({}, counted(succeeded=3, active=1), 0, None, id="done, but one still runs"),
        pytest.param({"backoff_limit": 1}, counted(failed=1), 0, None, id="failures within the limit"),
        pytest.param({"backoff_limit": 1}, counted(failed=2), 0, "BackoffLimitExceeded", id="too many failures"),
        pytest.param(
            {"backoff_limit": 2, "policy": "OnFailure"}, counted(restarts=2), 0, "BackoffLimitExceeded", id="restarts"
        ),
        pytest.param({"active_deadline_seconds": 5}, counted(active=1), 5, "DeadlineExceeded", id="too long"),
        pytest.param({"completions": None}, counted(succeeded=1), 0, "CompletionsReached", id="an empty work queue"),
        pytest.param({"completions": 0}, counted(), 0, "CompletionsReached", id="nothing to do"),
    ],
)
def test_verdict(spec: dict[str, Any], tally: PodCounts, elapsed: float, reason: str | None) -> None:
    ended = verdict(job(**spec), tally, 100.0 + elapsed, 100.0)
    assert (ended.reason if ended is not None else None) == reason


def test_backoff_doubles_up_to_ten_minutes() -> None:
    assert [backoff_seconds(n) for n in (0, 1, 2, 3, 100)] == [0, 10, 20, 40, 600]


# Life


def body(seconds: float | None = 5, code: int = 0, **spec: Any) -> dict[str, Any]:
    annotations = {} if seconds is None else {"test/seconds": str(seconds), "test/exit": str(code)}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


async def start(world: World, manifest: dict[str, Any], seconds: float) -> Job:
    await world.cluster.create(catalog.JOB, manifest, "default")
    await world.settle(seconds)
    return await world.cluster.get(Job, "j", "default")


def conditions(seen: Job) -> dict[str, str]:
    return {c.type: c.status for c in seen.status.conditions}


def test_a_job_completes() -> None:
    async def scenario(world: World) -> None:
        seen = await start(world, body(completions=4, parallelism=2), 60)
        assert (seen.status.succeeded, seen.status.active, seen.status.failed) == (4, 0, 0)
        assert conditions(seen) == {"SuccessCriteriaMet": "True", "Complete": "True"}
        assert seen.status.start_time is not None
        assert seen.status.completion_time is not None
        pods = await world.pods()
        assert len(pods) == 4
        assert all(p.metadata.label("job-name") == "j" for p in pods.values())

    play(scenario, enabled=ENABLED)


def test_an_indexed_job_runs_every_index_once() -> None:
    async def scenario(world: World) -> None:
        seen = await start(world, body(completions=5, parallelism=2, completionMode="Indexed"), 90)
        assert seen.status.completed_indexes == "0-4"
        pods = (await world.pods()).values()
        assert sorted(p.metadata.annotation(INDEX_KEY) for p in pods) == ["0", "1", "2", "3", "4"]
        first = next(p for p in pods if p.metadata.annotation(INDEX_KEY) == "0")
        assert first.spec.hostname == "j-0"
        assert {e.name: e.value for e in first.spec.containers[0].env}["JOB_COMPLETION_INDEX"] == "0"

    play(scenario, enabled=ENABLED)


def test_failures_are_retried_with_growing_pauses_and_end_the_job() -> None:
    async def scenario(world: World) -> None:
        seen = await start(world, body(code=1, backoffLimit=2), 12)
        assert (seen.status.failed, seen.status.active) == (1, 0)
        await world.settle(100)
        seen = await world.cluster.get(Job, "j", "default")
        assert seen.status.failed == 3
        assert conditions(seen) == {"FailureTarget": "True", "Failed": "True"}
        assert seen.status.conditions[-1].reason == "BackoffLimitExceeded"

    play(scenario, enabled=ENABLED)


def test_a_deadline_ends_the_pods_first() -> None:
    async def scenario(world: World) -> None:
        seen = await start(world, body(None, activeDeadlineSeconds=30, parallelism=2, completions=2), 60)
        assert conditions(seen) == {"FailureTarget": "True", "Failed": "True"}
        assert seen.status.conditions[-1].reason == "DeadlineExceeded"
        assert not await world.pods()

    play(scenario, enabled=ENABLED)


def test_suspension_and_resumption() -> None:
    async def scenario(world: World) -> None:
        seen = await start(world, body(suspend=True), 5)
        assert conditions(seen) == {"Suspended": "True"}
        assert not await world.pods()
        await world.cluster.patch(catalog.JOB, "j", "default", {"spec": {"suspend": False}})
        await world.settle(20)
        seen = await world.cluster.get(Job, "j", "default")
        assert conditions(seen) == {"Suspended": "False", "SuccessCriteriaMet": "True", "Complete": "True"}

    play(scenario, enabled=ENABLED)


def test_a_finished_job_goes_with_its_pods_when_its_time_has_come() -> None:
    async def scenario(world: World) -> None:
        await start(world, body(ttlSecondsAfterFinished=30), 20)
        assert len(await world.pods()) == 1
        await world.settle(40)
        with pytest.raises(NotFound):
            await world.cluster.get(Job, "j", "default")
        assert not await world.pods()

    play(scenario, enabled=ENABLED)


def test_a_deleted_pod_is_made_again_and_counts_as_a_failure() -> None:
    async def scenario(world: World) -> None:
        await start(world, body(None), 5)
        (name,) = await world.pods()
        await world.cluster.delete(catalog.POD, name, "default")
        await world.settle(30)
        seen = await world.cluster.get(Job, "j", "default")
        assert (seen.status.failed, seen.status.active) == (1, 1)
        assert set(await world.pods()) != {name}

    play(scenario, enabled=ENABLED)


def test_success_is_remembered_when_pods_are_removed() -> None:
    async def scenario(world: World) -> None:
        await start(world, body(completions=3, parallelism=1), 7)
        (name,) = [n for n, p in (await world.pods()).items() if p.status.phase == "Succeeded"]
        await world.cluster.delete(catalog.POD, name, "default", grace_period_seconds=0)
        await world.settle(30)
        seen = await world.cluster.get(Job, "j", "default")
        assert seen.status.succeeded == 3
        assert len(await world.pods()) == 2

    play(scenario, enabled=ENABLED)


def test_restarts_of_the_controller_make_no_pod_too_many() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(3, completions=6, parallelism=2), "default")
        for _ in range(15):
            await world.stop_controllers()
            await world.start_controllers()
            await world.settle(1.3)
        await world.settle(30)
        seen = await world.cluster.get(Job, "j", "default")
        assert (seen.status.succeeded, len(await world.pods())) == (6, 6)

    play(scenario, enabled=ENABLED)


def test_a_cron_job_makes_jobs() -> None:
    async def scenario(world: World) -> None:
        spec = body()["spec"]
        manifest = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec}, "successfulJobsHistoryLimit": 2},
        }
        await world.cluster.create(catalog.CRONJOB, manifest, "default")
        await world.settle(330)
        for _ in range(6):  # a server that answers late, or not, takes until shortly before the next is due
            if not (await world.cluster.get(CronJob, "c", "default")).status.active:
                break
            await world.settle(4)
        jobs = (await world.cluster.list(Job, "default")).items
        assert len(jobs) == 2
        assert all(j.metadata.annotation("batch.kubernetes.io/cronjob-scheduled-timestamp") for j in jobs)
        seen = await world.cluster.get(CronJob, "c", "default")
        assert seen.status.last_successful_time is not None
        assert not seen.status.active
        assert len(await world.pods()) == 2

    play(scenario, enabled=ENABLED)


def failing(name: str, code: int, index: int | None = None, failures: int = 0, **condition: str) -> Pod:
    annotations = {} if index is None else {INDEX_KEY: str(index), FAILURES_KEY: str(failures)}
    state = ContainerState(terminated=StateTerminated(exit_code=code))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="n", uid=name, annotations=annotations),
        status=PodStatus(
            phase="Failed",
            container_statuses=(ContainerStatus(name="c", state=state),),
            conditions=tuple(Condition(type=type_, status=status) for type_, status in condition.items()),
        ),
    )


RULES = (
    PodFailureRule(action="Ignore", on_pod_conditions=(PodConditionPattern(type="DisruptionTarget"),)),
    PodFailureRule(action="FailJob", on_exit_codes=ExitCodes(values=(42,))),
    PodFailureRule(action="Count", on_exit_codes=ExitCodes(operator="NotIn", values=(5,))),
    PodFailureRule(action="FailIndex", on_exit_codes=ExitCodes(container_name="c", values=(5,))),
)


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(failing("p", 42, DisruptionTarget="True"), (False, False, ""), id="the first rule that matches"),
        pytest.param(failing("p", 42, DisruptionTarget="False"), (True, False, "FailJob"), id="the exit code"),
        pytest.param(failing("p", 1), (True, False, ""), id="any other exit code"),
        pytest.param(failing("p", 5), (True, True, ""), id="of this container"),
        pytest.param(failing("p", 0), (True, False, ""), id="none matches"),
    ],
)
def test_what_a_failed_pod_means(one: Pod, want: tuple[bool, bool, str]) -> None:
    judged = judge(JobSpec(pod_failure_policy=PodFailurePolicy(rules=RULES)), one)
    assert (judged.counts, judged.fails_index) == want[:2]
    assert want[2] in judged.message
    assert judged.message in ("", "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 1")


@pytest.mark.parametrize(
    ("rule", "done", "want"),
    [
        pytest.param(SuccessRule(succeeded_indexes="0,2-3"), {0, 2, 3}, True, id="all of them"),
        pytest.param(SuccessRule(succeeded_indexes="0,2-3"), {0, 1, 3}, False, id="one is missing"),
        pytest.param(SuccessRule(succeeded_indexes="0-3", succeeded_count=2), {1, 3, 7}, True, id="so many of them"),
        pytest.param(SuccessRule(succeeded_count=2), {5}, False, id="too few of any"),
        pytest.param(SuccessRule(succeeded_count=1), {5}, True, id="so many of any"),
    ],
)
def test_success_policy(rule: SuccessRule, done: set[int], want: bool) -> None:
    spec = JobSpec(completions=9, success_policy=SuccessPolicy(rules=(rule,)))
    assert bool(succeeds_early(spec, done)) == want


@pytest.mark.parametrize(
    ("more", "pods", "want"),
    [
        pytest.param({}, [failing("a", 1, 0), failing("b", 1, 1, 1)], None, id="an index failed, others go on"),
        pytest.param(
            {"max_failed_indexes": 0}, [failing("b", 1, 1, 1)], "MaxFailedIndexesExceeded", id="too many failed"
        ),
        pytest.param(
            {},
            [failing("a", 1, 0, 1), failing("b", 1, 1, 1), failing("c", 1, 2, 1)],
            "FailedIndexes",
            id="all have ended",
        ),
    ],
)
def test_limits_of_each_index(more: dict[str, Any], pods: list[Pod], want: str | None) -> None:
    limited = {"backoff_limit_per_index": 1, "backoff_limit": 2**31 - 1, "completion_mode": "Indexed", **more}
    one = job(**limited)
    found = tally(one, pods, ())
    ended = verdict(one, found, 0.0, 0.0)
    assert (ended and ended.reason) == want
    assert not set(steps(one, found, ()).create) & found.failures.indexes


def test_a_pod_that_leaves_keeps_its_place() -> None:
    """With ``podReplacementPolicy: Failed`` no index runs twice at a time."""
    one = job(pod_replacement_policy="Failed", completion_mode="Indexed")
    found = tally(one, [pod("a", 0), pod("b", 1)], ("b",))
    assert steps(one, found, found.active).create == []
    other = job(pod_replacement_policy="TerminatingOrFailed", completion_mode="Indexed")
    assert steps(other, tally(other, [pod("a", 0), pod("b", 1)], ("b",)), found.active).create == [1]


def test_each_index_has_its_own_limit() -> None:
    async def scenario(world: World) -> None:
        failing_job = body(1, 1, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
        await world.cluster.create(catalog.JOB, failing_job, "default")
        await world.settle(60)
        found = await world.cluster.get(Job, "j", "default")
        assert (found.status.failed, found.status.failed_indexes) == (4, "0,1")
        assert [(c.type, c.reason) for c in found.status.conditions] == [
            ("FailureTarget", "FailedIndexes"),
            ("Failed", "FailedIndexes"),
        ]

    play(scenario, enabled=ENABLED)


def test_a_job_of_another_controller_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.JOB, body(managedBy="example.com/me"), "default")
        await world.settle()
        assert not await world.pods()

    play(scenario, enabled=ENABLED)


def test_a_job_that_was_refused_for_long_begins_within_a_minute_of_room() -> None:
    async def scenario(world: World) -> None:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
        await world.cluster.create(catalog.RESOURCEQUOTA, quota, "default")
        await start(world, body(), 2000)
        assert not await world.pods()
        await world.cluster.delete(catalog.RESOURCEQUOTA, "q", "default")
        await world.settle(70)
        assert conditions(await world.cluster.get(Job, "j", "default"))["Complete"] == "True"

    play(scenario, enabled=(*ENABLED, "kube-resourcequota-controller"))
