"""The plan of an MPI job of v2beta1 from what there is: when its launcher starts, why it failed, what is cleaned up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from strato.api import catalog, mpioperator
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.frameworks import JobShape
from strato.api.volcano.scheduling import PodGroup
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.training.mpi.group import desired
from strato.controllers.training.mpi.plan import plan
from strato.controllers.training.record import LauncherPlan, TrainingPlan, TrainingRecord

Json = dict[str, Any]
ADAPTER = ADAPTERS[catalog.MPIJOB]
RUNNING = {"type": "Created", "status": "True"}


def pod(name: str, phase: str, *, ready: bool = False, born: str = "", going: bool = False, **status: Any) -> Pod:
    metadata = {"name": name, "uid": name, **({"creationTimestamp": born} if born else {})}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return msgspec.convert({"metadata": metadata, "status": {"phase": phase, "conditions": conditions, **status}}, Pod)


def launcher(*conditions: Json, suspend: bool = False, failed: int = 0) -> Job:
    status = {"conditions": list(conditions), "failed": failed, "completionTime": "2026-01-01T00:01:00Z"}
    return msgspec.convert({"metadata": {"name": "m-launcher"}, "spec": {"suspend": suspend}, "status": status}, Job)


def record(
    pods: tuple[Pod, ...] = (), of: Job | None = None, launchers: tuple[Pod, ...] = (), workers: int = 2, **spec: Any
) -> TrainingRecord:
    roles = {"Launcher": {"replicas": 1, "template": {}}, "Worker": {"replicas": workers, "template": {}}}
    conditions = spec.pop("conditions", [RUNNING])
    body = {
        "metadata": {"name": "m", "namespace": "ns", "uid": "u"},
        "spec": {"mpiReplicaSpecs": roles, **spec},
        "status": {"conditions": conditions},
    }
    job = msgspec.convert(body, mpioperator.MPIJob)
    return TrainingRecord(
        framework=ADAPTER.framework,
        judge=ADAPTER.judge,
        job=job,
        shape=JobShape.of(ADAPTER.framework, job),
        pods=pods,
        terminating=frozenset(),
        services=(),
        group=None,
        gang=None,
        now=1_800_000_000.0,
        launcher=of,
        launcher_pods=launchers,
    )


def verdict(planned: TrainingPlan) -> tuple[str, str, str]:
    assert planned.status is not None
    return next(
        (
            (one.type, one.reason, one.message)
            for one in planned.status.conditions
            if one.type in ("Succeeded", "Failed")
        ),
        ("", "", ""),
    )


FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
OLD = pod("old", "Failed", born="2026-01-01T00:00:00Z", reason="Evicted", message="first")
NEW = pod("new", "Failed", born="2026-01-01T00:00:01Z", reason="OOMKilled", message="last")
VERDICTS = [
    pytest.param({**FAILED, "reason": "DeadlineExceeded"}, (NEW,), "DeadlineExceeded", "too often", id="it says why"),
    pytest.param({**FAILED, "reason": ""}, (NEW,), "MPIJobFailed", "too often", id="it says no reason"),
    pytest.param(
        {**FAILED, "reason": "R", "message": ""}, (), "R", "MPIJob ns/m has failed", id="it says nothing more"
    ),
    pytest.param(FAILED, (), "BackoffLimitExceeded", "too often", id="retried, and no pod is left"),
    pytest.param(FAILED, (NEW, OLD), "BackoffLimitExceeded/OOMKilled", "too often: last", id="the newest pod says why"),
    pytest.param(FAILED, (OLD, pod("r", "Running")), "BackoffLimitExceeded/Evicted", "too often: first", id="failed"),
    pytest.param({**FAILED, "reason": "R", "message": "x" * 1024}, (), "R", "x" * 1024, id="the longest message"),
    pytest.param({**FAILED, "reason": "R", "message": "x" * 1025}, (), "R", "x" * 1021 + "...", id="a longer one"),
]


@pytest.mark.parametrize(("condition", "launchers", "reason", "message"), VERDICTS)
def test_why_a_launcher_has_failed(condition: Json, launchers: tuple[Pod, ...], reason: str, message: str) -> None:
    planned = plan(record(of=launcher(condition, failed=1), launchers=launchers))
    assert verdict(planned) == ("Failed", reason, message)
    assert [(event.type, event.reason) for event in planned.events] == [("Warning", reason)]


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ({"type": "Complete", "status": "True"}, "Succeeded"),
        ({"type": "Complete", "status": "False"}, ""),
        ({"type": "Failed", "status": "False"}, ""),
        ({"type": "SuccessCriteriaMet", "status": "True"}, ""),
    ],
)
def test_only_a_verdict_that_holds_ends_the_job(condition: Json, want: str) -> None:
    assert verdict(plan(record(of=launcher(condition))))[0] == want


READY = tuple(pod(f"m-worker-{index}", "Running", ready=True) for index in range(2))
CREATE, CREATE_SUSPENDED, RESUME, SUSPEND = LauncherPlan
LAUNCHES = [
    pytest.param({}, (), None, CREATE, id="at once"),
    pytest.param({}, READY, launcher(), None, id="it is there"),
    pytest.param({}, READY, launcher(suspend=True), RESUME, id="it was suspended"),
    pytest.param({"launcherCreationPolicy": "WaitForWorkersReady"}, (), None, None, id="it waits for all workers"),
    pytest.param({"launcherCreationPolicy": "WaitForWorkersReady"}, READY[:1], None, None, id="one of two is ready"),
    pytest.param(
        {"launcherCreationPolicy": "WaitForWorkersReady"}, (READY[0], pod("m-worker-1", "Running")), None, None,
        id="one of two is not",
    ),
    pytest.param({"launcherCreationPolicy": "WaitForWorkersReady"}, READY, None, CREATE, id="both are ready"),
    pytest.param(
        {"launcherCreationPolicy": "WaitForWorkersReady", "workers": 0}, (), None, CREATE, id="it has no workers"
    ),
    pytest.param({"runPolicy": {"suspend": True}}, (), None, CREATE_SUSPENDED, id="suspended before it began"),
    pytest.param({"runPolicy": {"suspend": True}}, READY, launcher(), SUSPEND, id="suspended while it runs"),
    pytest.param({"runPolicy": {"suspend": True}}, (), launcher(suspend=True), None, id="suspended already"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "pods", "of", "want"), LAUNCHES)
def test_when_a_launcher_starts(spec: Json, pods: tuple[Pod, ...], of: Job | None, want: LauncherPlan | None) -> None:
    planned = plan(record(pods, of, **spec))
    assert planned.launch is want
    assert planned.delete_pods == (list(pods) if "runPolicy" in spec else [])


WORKERS = (
    pod("m-worker-0", "Running"),
    pod("m-worker-1", "Succeeded"),
    pod("m-worker-2", "Failed"),
    pod("m-worker-3", "Pending"),
    pod("m-worker-4", "Running", going=True),
)
CLEANED = [("None", []), ("Running", [0, 3]), ("All", [0, 1, 2, 3])]


@pytest.mark.parametrize(("policy", "going"), CLEANED)
@pytest.mark.parametrize("has_group", [False, True])
def test_what_goes_when_a_job_has_ended(policy: str, going: list[int], has_group: bool) -> None:
    given = record(
        WORKERS, launcher({"type": "Complete", "status": "True"}), workers=5, runPolicy={"cleanPodPolicy": policy}
    )
    planned = plan(replace(given, group=PodGroup() if has_group else None))
    assert [one.metadata.name for one in planned.delete_pods] == [f"m-worker-{index}" for index in going]
    assert planned.delete_group is (has_group and policy != "None")
    assert (planned.create_pods, planned.launch) == ([], None)


def test_a_worker_that_was_evicted_ends_the_job_and_its_launcher() -> None:
    evicted = pod("m-worker-0", "Failed", reason="Evicted")
    planned = plan(record((evicted, READY[1]), launcher(), runPolicy={"cleanPodPolicy": "Running"}))
    assert verdict(planned) == ("Failed", "MPIJobEvicted", "1/2 workers are evicted")
    assert planned.launch is LauncherPlan.SUSPEND
    kept = plan(record((pod("m-worker-0", "Failed", reason="Error"), READY[1]), launcher()))
    assert verdict(kept)[0] == ""


def asks(cpu: str, replicas: int) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}}


@pytest.mark.parametrize(
    ("roles", "members", "cpu"),
    [
        pytest.param({"Launcher": asks("1", 1)}, 1, "1", id="a launcher that runs all ranks by itself"),
        pytest.param({"Launcher": asks("1", 1), "Worker": asks("2", 0)}, 1, "1", id="no workers for now"),
        pytest.param({"Launcher": asks("1", 1), "Worker": asks("2", 2)}, 3, "5", id="a launcher and its workers"),
    ],
)
def test_the_gang_of_an_mpi_job(roles: Json, members: int, cpu: str) -> None:
    body = {"metadata": {"name": "m", "namespace": "ns", "uid": "u"}, "spec": {"mpiReplicaSpecs": roles}}
    job = msgspec.convert(body, mpioperator.MPIJob)
    found = desired(JobShape.of(ADAPTER.framework, job), job, None, lambda _: 0)
    assert (found.min_member, found.min_resources) == (members, {"cpu": cpu})
