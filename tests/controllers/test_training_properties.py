"""Random training jobs: a controller that is killed after any write changes nothing about how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from strato.api import catalog, mpioperator
from strato.api.batch import Job
from strato.api.core import Pod, Service
from strato.api.frameworks import FRAMEWORKS, Framework, JobShape
from strato.api.meta import Json
from strato.api.volcano.scheduling import PodGroup, PodGroupStatus
from strato.clock import format_time
from strato.controllers.training import bodies, gang
from strato.controllers.training.adapters import ADAPTERS
from strato.controllers.training.record import Gang, LauncherPlan, TrainingPlan, TrainingRecord
from strato.controllers.trainingoptions import PodOptions

NOW = 1_767_225_600.0
ROUNDS = 12
"""More than any job here takes to end, or to come to rest."""
OPTIONS = PodOptions()
FOR_EVER = -1


@dataclass(frozen=True)
class Case:
    """A job, and the exit codes of each replica's pods, one after another; the last is repeated."""

    framework: Framework
    spec: Json
    codes: tuple[int, ...]
    turns: int
    """Shifts the codes from replica to replica."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    framework = draw(st.sampled_from(FRAMEWORKS))
    container = {"name": framework.container or "c", "image": "i"}
    policies = ["Never", "OnFailure"] if framework.kind is catalog.MPIJOB else ["Never", "OnFailure", "ExitCode"]
    roles = {"Worker"} | set(framework.leaders[:1] if framework.leader_required or draw(st.booleans()) else ())
    replicas = {
        role: {
            "replicas": 1 if role in framework.leaders else draw(st.integers(1, 3)),
            "restartPolicy": draw(st.sampled_from(policies)),
            "template": {"spec": {"containers": [container]}},
        }
        for role in sorted(roles)
    }
    policy = {"cleanPodPolicy": draw(st.sampled_from(["None", "Running", "All"]))}
    limit = draw(st.none() | st.integers(0, 3))
    spec = {framework.replica_map: replicas, "runPolicy": policy | ({} if limit is None else {"backoffLimit": limit})}
    if framework.kind is catalog.MPIJOB:
        spec = mpioperator.with_defaults(spec)
        spec["launcherCreationPolicy"] = draw(st.sampled_from(mpioperator.CREATION_POLICIES))
    codes = draw(st.lists(st.sampled_from([FOR_EVER, 0, 0, 1, 137]), min_size=1, max_size=4))
    return Case(framework, spec, tuple(codes), draw(st.integers(0, 3)))


@dataclass
class World:
    """What an API server holds of one job, a scheduler that lets its group in, and nodes that run its pods."""

    case: Case
    whole: Json = field(init=False)
    pods: dict[str, Json] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    group: PodGroup | None = None
    launcher: Json | None = None
    made: dict[str, int] = field(default_factory=dict)
    """Pods that were made of a name."""

    def __post_init__(self) -> None:
        metadata = {"name": "j", "namespace": "ns", "uid": "u"}
        self.whole = {"metadata": metadata, "spec": self.case.spec, "status": {}}

    def record(self) -> TrainingRecord:
        framework = self.case.framework
        adapter = ADAPTERS[framework.kind]
        job: Any = msgspec.convert(self.whole, framework.kind.view)
        launcher = msgspec.convert(self.launcher, Job) if self.launcher is not None else None
        running = self.launcher is not None and self.launcher["status"] == {"active": 1}
        pods = [msgspec.convert({"status": {"phase": "Running"}}, Pod)] if running else []
        return TrainingRecord(
            framework=framework,
            judge=adapter.judge,
            job=job,
            shape=JobShape.of(framework, job),
            pods=[msgspec.convert(one, Pod) for one in self.pods.values()],
            terminating=frozenset(),
            services=[msgspec.convert(one, Service) for one in self.services.values()],
            group=self.group,
            gang=Gang(scheduler="volcano", priority_of=lambda name: 0),
            now=NOW,
            launcher=launcher,
            launcher_pods=pods,
        )

    def writes(self, record: TrainingRecord, planned: TrainingPlan) -> Iterator[Callable[[], None]]:
        """Yield the writes of a plan, in the controller's order."""
        wanted = planned.group
        if wanted is not None and (self.group is None or gang.patch(self.group, wanted) is not None):
            body = msgspec.convert({**gang.body(record.shape, record.job, wanted)}, PodGroup)
            yield lambda: setattr(self, "group", body)
        if planned.status is not None:
            status = msgspec.to_builtins(planned.status)
            yield lambda: self.whole.update(status=status)
        if planned.delete_group:
            yield lambda: setattr(self, "group", None)
        for pod in planned.delete_pods:
            yield partial(self.pods.__delitem__, pod.metadata.name)
        for service in planned.delete_services:
            yield partial(self.services.__delitem__, service.metadata.name)
        for replica in planned.create_services:
            made = bodies.service(record.shape, record.job.metadata, replica)
            yield partial(self.services.__setitem__, made["metadata"]["name"], made)
        renderer = ADAPTERS[record.framework.kind].renderer(OPTIONS)
        for replica in planned.create_pods:
            template = self.case.spec[record.framework.replica_map][replica.role]["template"]
            made = renderer.pod(record.shape, record.job.metadata, template, replica)
            yield partial(self._add_pod, made)
        if planned.launch is not None:
            yield partial(self._launch, planned.launch)

    def _add_pod(self, body: Json) -> None:
        name = body["metadata"]["name"]
        self.made[name] = self.made.get(name, 0) + 1
        body["metadata"]["uid"] = f"{name}-{self.made[name]}"
        self.pods[name] = {**body, "status": {"phase": "Pending"}}

    def _launch(self, launch: LauncherPlan) -> None:
        assert launch in (LauncherPlan.CREATE, LauncherPlan.SUSPEND)
        if launch is LauncherPlan.SUSPEND:
            assert self.launcher is not None
            self.launcher = {**self.launcher, "spec": {"suspend": True}, "status": {}}
        else:
            assert self.launcher is None, "a job has one launcher"
            self.launcher = {"metadata": {"name": "j-launcher"}, "spec": {}, "status": {}}

    def settle(self, killed_after: Iterator[int]) -> int:
        """Let controllers write until nothing is left to do; each is killed after some writes. Returns the writes."""
        count = 0
        while True:
            record = self.record()
            writes = list(self.writes(record, ADAPTERS[record.framework.kind].plan(record)))
            if not writes:
                return count
            for write in writes[: next(killed_after)]:
                write()
                count += 1
            assert count < 1000, "it never comes to rest"

    def go_on(self) -> None:
        """Let groups in, start pods, and end those that ran."""
        if self.group is not None and self.group.status.phase in ("", "Pending"):
            self.group = msgspec.structs.replace(self.group, status=PodGroupStatus(phase="Inqueue"))
        for position, (name, pod) in enumerate(sorted(self.pods.items())):
            phase = pod["status"]["phase"]
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            if phase == "Pending":
                pod["status"] = {"phase": "Running", **ready}
            elif phase == "Running" and (code := self._code(position, self.made[name])) != FOR_EVER:
                container = {"name": pod["spec"]["containers"][0]["name"], "state": {"terminated": {"exitCode": code}}}
                pod["status"] = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
        self._go_on_launching()

    def _go_on_launching(self) -> None:
        if self.launcher is None or self.launcher["spec"].get("suspend"):
            return
        status, code = self.launcher["status"], self._code(0, 1)
        if not status:
            self.launcher = {**self.launcher, "status": {"active": 1}}
        elif status == {"active": 1} and code != FOR_EVER:
            condition = {"type": "Failed" if code else "Complete", "status": "True"}
            ended = {"conditions": [condition], "completionTime": format_time(NOW), "failed": int(code > 0)}
            self.launcher = {**self.launcher, "status": ended}

    def _code(self, position: int, made: int) -> int:
        codes = self.case.codes
        return codes[min(made - 1 + (position + self.case.turns) % len(codes), len(codes) - 1)]

    def end(self) -> Json:
        """Return what is left in the end."""
        status = self.whole["status"]
        return {
            "true": [one["type"] for one in status.get("conditions", ()) if one["status"] == "True"],
            "replicas": status.get("replicaStatuses"),
            "replaced": status.get("replacedPods", {}).get("count", 0),
            "pods": sorted((name, one["status"]["phase"]) for name, one in self.pods.items()),
            "group": self.group is not None,
            "launcher": self.launcher,
        }


def play(case: Case, killed_after: Iterator[int]) -> Json:
    world = World(case)
    for _ in range(ROUNDS):
        world.settle(killed_after)
        assert world.settle(killed_after) == 0, "a job that is as it should be costs no write"
        world.go_on()
    world.settle(killed_after)
    return world.end()


def always() -> Iterator[int]:
    while True:
        yield 1 << 30


def killing(after: list[int]) -> Iterator[int]:
    while True:
        yield from after


@given(cases(), st.lists(st.integers(1, 4), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_killed_controller_is_continued_to_the_same_end(case: Case, after: list[int]) -> None:
    killed, whole = play(case, killing(after)), play(case, always())
    if {"Failed", "Succeeded"} & set(whole["true"]):
        # the pass in which a job ends still replaces failed pods, as upstream; cut short, it leaves the old ones
        del killed["pods"], whole["pods"]
    assert killed == whole


@given(cases())
@settings(deadline=None)
def test_a_job_that_has_ended_has_one_verdict(case: Case) -> None:
    found = play(case, always())
    assert len({"Succeeded", "Failed"} & set(found["true"])) <= 1
    if "Failed" in found["true"] or "Succeeded" in found["true"]:
        assert "Running" not in found["true"]
        kept = case.spec["runPolicy"]["cleanPodPolicy"]
        phases = {phase for _, phase in found["pods"]}
        assert kept != "All" or not found["pods"]
        assert kept != "Running" or phases <= {"Succeeded", "Failed"}
