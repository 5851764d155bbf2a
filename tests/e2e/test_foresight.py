"""Foresight on a living cluster: a shadow policy, when jobs start, what changes would do.

On the embedded server and, with STRATO_E2E_WORLD=kube, on a real kube-apiserver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ownscheduler import forbidden, own_world, scheduler_metrics, stop_scheduler
from tests.e2e.worlds import World, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

POLICY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: nodeorder}]
"""
SHADOW = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: binpack}]
"""
"""Quotas of queues, preemption, full nodes first; no gangs."""
START = "strato.dev/predicted-start"
SHADOW_SECONDS = 300.0
"""A comparison may be up to a minute late by itself; the machine may be slow besides."""


@pytest.fixture
def foreseen(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "shadow.yaml").write_text(SHADOW)
    options = ("--shadow", str(tmp_path / "shadow.yaml"), "--predict-starts", "--record", str(tmp_path / "log"))
    with own_world(tmp_path, tmp_path / "policy.yaml", *options) as world:
        yield world
        assert forbidden(world) == []


def priority(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def queue(name: str, cpu: str) -> dict[str, Any]:
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**body, "spec": {"weight": 1, "capability": {"cpu": cpu}}}


def job(name: str, size: int, *, least: int = 0, seconds: int = 3600, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Return a job of equal pods, of which it needs ``least``, by default all."""
    template = {
        "metadata": {"annotations": {"strato.dev/run-seconds": str(seconds)}},
        "spec": {
            "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}],
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 1,
        },
    }
    task = {"name": "w", "replicas": size, "template": template}
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    return {**kind, "spec": {"schedulerName": "volcano", "minAvailable": least or size, "tasks": [task], **spec}}


def running(world: World, name: str) -> list[dict[str, Any]]:
    pods = world.items("pods", "-l", f"volcano.sh/job-name={name}")
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def group_of(world: World, name: str) -> dict[str, Any]:
    (found,) = [
        group
        for group in world.items("podgroups")
        if any(owner["name"] == name for owner in group["metadata"].get("ownerReferences", ()))
    ]
    return found


def asked(world: World, *args: str) -> Any:
    """Return what a command prints as data; notes before it are left out."""
    text = world.strato(*args, "-o", "json")
    return json.loads(text[text.index("{") :])


def phase_of(world: World, name: str) -> str:
    """Return the phase of a job's pod group; "" while it has none."""
    groups = world.items("podgroups")
    owners = {one["name"]: group for group in groups for one in group["metadata"].get("ownerReferences", ())}
    return str(owners.get(name, {}).get("status", {}).get("phase", ""))


def instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_a_shadow_policy_says_who_would_run_wait_and_be_evicted(foreseen: World, tmp_path: Path) -> None:
    world = foreseen
    world.apply(priority("low", 1))
    world.apply(priority("high", 1000))
    world.apply(queue("small", "2"))
    world.apply(job("spread", 10, least=1, priorityClassName="low"))
    eventually(lambda: len(running(world, "spread")) == 10, what="the first job runs")
    has_found(world, ("default/spread", "other-node"))
    world.apply(job("capped", 4, least=1, queue="small"))
    eventually(lambda: len(running(world, "capped")) == 4, what="a job beyond its queue's quota runs")
    has_found(world, ("default/capped", "would-wait"))
    world.apply(job("urgent", 4, priorityClassName="high"))
    has_found(world, ("default/urgent", "would-start"), ("default/spread", "would-be-evicted"))
    found = changes(world)
    assert 1 <= found["default/capped", "would-wait"]["pods"] <= 2, "as many as were bound in the cycle compared"
    assert found["default/capped", "would-wait"]["queue"] == "small"
    assert found["default/urgent", "would-start"]["pods"] == 2
    assert found["default/spread", "would-be-evicted"]["pods"] == 2
    assert len(running(world, "urgent")) == 0, "nothing of the shadow's is applied"
    assert len(running(world, "spread")) == 10

    table = world.strato("shadow", "--queue", "small")
    assert "would-wait" in table
    assert "default/urgent" not in table
    metrics = scheduler_metrics(world)
    assert metrics['strato_shadow_differences_total{change="would-wait"}'] >= 1
    assert metrics['strato_shadow_jobs{change="would-start"}'] == 1
    assert metrics['strato_shadow_cycles_total{outcome="compared"}'] >= 3
    assert metrics['strato_shadow_cycles_total{outcome="raised"}'] == 0

    (tmp_path / "shadow.yaml").write_text(POLICY)
    eventually(lambda: not changes(world), timeout=SHADOW_SECONDS, what="the policy in force differs in nothing")


def has_found(world: World, *wanted: tuple[str, str]) -> None:
    """Wait until the shadow has found how jobs fare differently."""
    eventually(lambda: set(wanted) <= changes(world).keys(), timeout=SHADOW_SECONDS, what=f"the shadow finds {wanted}")


def changes(world: World) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what ``strato shadow`` shows, by job and change."""
    text = world.strato("shadow", "-o", "json", check=False)
    if not text.startswith("{"):  # it has not published yet
        return {}
    (summary,) = json.loads(text)["schedulers"]
    return {(one["job"], one["change"]): one for one in summary["differences"]}


def test_when_a_job_starts_is_told_published_and_compared(foreseen: World) -> None:
    world = foreseen
    world.apply(job("first", 16))
    eventually(lambda: len(running(world, "first")) == 16, what="the first gang fills the cluster")
    ends = max(instant(pod["status"]["startTime"]) for pod in running(world, "first")) + 3600
    world.apply(job("second", 16))
    eventually(lambda: phase_of(world, "second") == "Inqueue", what="the second gang waits")

    said = asked(world, "when", "job/second")
    assert said["state"] == "waits"
    assert instant(said["startTime"]) == pytest.approx(ends, abs=3)
    assert instant(said["earliestTime"]) <= instant(said["startTime"]) <= instant(said["latestTime"])
    assert "starts in about" in world.strato("when", f"podgroup/{group_of(world, 'second')['metadata']['name']}")
    assert "starts in about" in world.strato("when", "pod/second-w-0")
    assert "has started" in world.strato("when", "job/first")
    (row,) = [line for line in world.strato("queue", "list", "--when").splitlines() if "default/second" in line]
    assert row.startswith("default ")

    def published() -> dict[str, str]:
        notes: dict[str, str] = group_of(world, "second")["metadata"].get("annotations", {})
        return notes if START in notes else {}

    notes = eventually(published, timeout=300, what="the prediction is on the pod group")
    assert instant(notes[START]) == pytest.approx(ends, abs=5)
    earliest, _, latest = notes[f"{START}-interval"].partition("/")
    assert instant(earliest) <= instant(notes[START]) <= instant(latest)

    world.kubectl("delete", "vcjob", "first")
    eventually(lambda: len(running(world, "second")) == 16, what="the second gang runs, earlier than was foreseen")

    def outcomes() -> dict[str, float]:
        metrics = scheduler_metrics(world)
        return {how: metrics[f'strato_start_predictions_total{{outcome="{how}"}}'] for how in ("within", "outside")}

    eventually(lambda: outcomes() == {"within": 0, "outside": 1}, what="the prediction is compared with what came")
    assert scheduler_metrics(world)['strato_start_prediction_error_seconds{of="prediction"}'] > 0


def test_what_if_answers_each_question_and_writes_nothing(foreseen: World, tmp_path: Path) -> None:
    world = foreseen
    world.apply(queue("small", "4"))
    world.apply(priority("low", 1))
    world.apply(priority("high", 1000))
    world.apply(job("fills", 16, least=1, priorityClassName="low"))
    eventually(lambda: len(running(world, "fills")) == 16, what="the cluster is full")
    world.apply(job("waits", 8, queue="small"))
    world.apply(job("urgent", 4, priorityClassName="high"))
    for name in ("waits", "urgent"):
        eventually(lambda name=name: phase_of(world, name) == "Inqueue", what=f"the gang {name} waits")  # type: ignore[misc]  # mypy infers no defaults
    before = versions(world)

    more = asked(world, "what-if", "--add-nodes", "3x4cpu,16Gi")
    assert starts(more, "default/waits") == (3600, 0.0)
    assert (more["before"]["nodes"], more["after"]["nodes"]) == (4, 7)

    preempting = tmp_path / "preempting.yaml"
    preempting.write_text(POLICY.replace("allocate,", "allocate, preempt,"))
    other = asked(world, "what-if", "--policy", str(preempting))
    assert starts(other, "default/urgent") == (3600, 0.0)
    assert [one["for"] for one in other["after"]["evictions"]].count("") == 0
    assert len(other["after"]["evictions"]) == 4

    quotas = tmp_path / "quotas.yaml"
    quotas.write_text(POLICY.replace("{name: predicates}", "{name: predicates}, {name: proportion}"))
    held = asked(world, "what-if", "--policy", str(quotas), "--add-nodes", "3x4cpu,16Gi")
    assert starts(held, "default/waits") == (3600, None)
    raised = asked(
        world,
        *("what-if", "--policy", str(quotas), "--add-nodes", "3x4cpu,16Gi", "--queue", "small.capability.cpu=8"),
    )
    assert starts(raised, "default/waits") == (3600, 0.0)

    node = running(world, "fills")[0]["spec"]["nodeName"]
    drained = asked(world, "what-if", "--drain", node)
    assert drained["after"]["nodes"] == 3
    assert drained["changes"] == [f"drain {node}, of 4 pods"]

    (tmp_path / "job.json").write_text(json.dumps(job("submitted", 3)))
    submitted = asked(world, "what-if", "--submit", str(tmp_path / "job.json"), "--until-all-start", "4cpu,16Gi")
    assert submitted["fewestNodes"]["nodes"] == 4  # fifteen pods of a cpu each
    assert {one["name"] for one in submitted["jobs"]} == {"default/waits", "default/urgent", "default/submitted"}

    state = tmp_path / "state.json"
    world.strato("schedule", "--from-cluster", "--save", str(state))
    assert starts(asked(world, "what-if", "-f", str(state), "--add-nodes", "3x4cpu,16Gi"), "default/waits")[1] == 0.0
    assert versions(world) == before, "a question changes nothing"

    stop_scheduler(world)
    past = asked(world, "what-if", "--log", str(tmp_path / "log"), "--add-nodes", "3x4cpu,16Gi")
    assert starts(past, "default/waits")[1] == 0.0


def starts(answer: Any, name: str) -> tuple[float | None, float | None]:
    """Return in how many seconds a job starts before and after the changes; that before to the hour."""
    (one,) = [one for one in answer["jobs"] if one["name"] == name]
    before, after = one["before"]["startsInSeconds"], one["after"]["startsInSeconds"]
    return (None if before is None else 3600.0 * round(before / 3600)), after


def versions(world: World) -> dict[str, str]:
    """Return what a question could change of the objects that it is about.

    Not generations: the status of a pod group, which the scheduler goes on writing, counts there. Of nodes whether they
    are cordoned: taints come and go with heartbeats, which are late on a busy machine.
    """
    kinds = "pods,podgroups.scheduling.volcano.sh,queues.scheduling.volcano.sh,jobs.batch.volcano.sh"
    found = {one["metadata"]["uid"]: json.dumps(one["spec"], sort_keys=True) for one in world.items(kinds)}
    cordoned = {one["metadata"]["uid"]: str(one["spec"].get("unschedulable")) for one in world.items("nodes")}
    return found | cordoned
