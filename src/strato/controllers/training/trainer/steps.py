"""The steps of a TrainJob: the replicated jobs of its runtime, changed as the TrainJob says (spec training K)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from strato.api import trainer
from strato.api.core import PodSpec
from strato.api.meta import Json
from strato.api.trainer import InitializerStep, JobSetSpec, MLPolicy, MPIPolicy, TrainingRuntimeSpec, TrainJob
from strato.controllers.training.trainer.merging import merged, upserted, with_variables
from strato.errors import StratoError

MOST_JOBS: Final = 1_000
MOST_PODS: Final = 100_000
_STORAGE_URI: Final = "STORAGE_URI"
_IN_ORDER: Final = "InOrder"
COMPLETE: Final = "Complete"
READY: Final = "Ready"


class BadRuntime(StratoError):
    """A runtime cannot be run."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A step that another one waits for."""

    step: str
    status: str
    """`COMPLETE` or `READY`."""


@dataclass(slots=True, kw_only=True)
class ReplicatedJobTemplate:
    """One replicated job while its template is being changed."""

    name: str
    replicas: int
    """Number of its Jobs."""
    template: Json
    """Metadata and spec of its Jobs."""
    waits_for: tuple[Dependency, ...] = ()
    of_runtime: tuple[str, ...] = ()
    """Command of the runtime's node, if the TrainJob's own command has replaced it."""

    @property
    def part(self) -> str:
        """The part of the training that it runs, by its label."""
        return str(((self.template.get("metadata") or {}).get("labels") or {}).get(trainer.STEP_LABEL, ""))

    @property
    def job(self) -> Json:
        """Spec of its Jobs."""
        return self.template.setdefault("spec", {})  # type: ignore[no-any-return] # a part of JSON

    @property
    def pod(self) -> Json:
        """Spec of its pods."""
        template = self.job.setdefault("template", {})
        return template.setdefault("spec", {})  # type: ignore[no-any-return] # a part of JSON

    @property
    def pods(self) -> int:
        """Number of pods of each of its Jobs."""
        count = self.job.get("parallelism")
        return 1 if count is None else int(count)

    @pods.setter
    def pods(self, count: int) -> None:
        self.job["parallelism"] = self.job["completions"] = count

    def containers(self, name: str) -> Iterator[Json]:
        """Yield its containers and init containers of a name."""
        for member in ("initContainers", "containers"):
            yield from (one for one in self.pod.get(member) or () if one.get("name") == name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """All steps of a TrainJob."""

    steps: Sequence[ReplicatedJobTemplate]
    subdomain: str
    """Name of the headless service through which the pods reach each other."""
    publishes_unready: bool
    metadata: Json
    """Labels and annotations of all objects that are made."""
    spec: JobSetSpec
    """The runtime's settings for all steps."""

    @property
    def has_names(self) -> bool:
        """Whether pods have DNS names."""
        return self.spec.network.enable_dns_hostnames is not False

    def of_part(self, part: str) -> ReplicatedJobTemplate | None:
        """Return the step that runs a part of the training."""
        return next((one for one in self.steps if one.part == part), None)

    def named(self, name: str) -> ReplicatedJobTemplate | None:
        """Return the step of a name."""
        return next((one for one in self.steps if one.name == name), None)

    def begins_with_the_nodes(self, step: ReplicatedJobTemplate) -> bool:
        """Return whether a step's pods start together with those that train.

        Steps that have to complete before others run earlier; steps that wait until others are ready run later.
        """
        return step.name not in self.before_others() and all(one.status != READY for one in step.waits_for)

    def before_others(self) -> frozenset[str]:
        """Return the steps that have to complete before others begin."""
        awaited = (one for step in self.steps for one in step.waits_for)
        return frozenset(one.step for one in awaited if one.status == COMPLETE)


def steps_of(job: TrainJob, runtime: TrainingRuntimeSpec) -> Steps:
    """Return the steps of a TrainJob, still without what its framework adds.

    Raises:
        BadRuntime: The runtime has no steps, or they wait for each other in a circle.
    """
    metadata, spec = _patched(job, runtime)
    view = spec_view(spec, f"the runtime {job.spec.runtime_ref.name}")
    in_order = view.startup_policy.startup_policy_order == _IN_ORDER
    found: list[ReplicatedJobTemplate] = []
    for given, seen in zip(spec.get("replicatedJobs") or (), view.replicated_jobs, strict=True):
        waits_for = tuple(Dependency(one.name, one.status) for one in seen.depends_on)
        if in_order and found and not waits_for:
            waits_for = (Dependency(found[-1].name, READY),)
        step = ReplicatedJobTemplate(
            name=seen.name,
            replicas=1 if seen.replicas is None else seen.replicas,
            template=given.get("template") or {},
            waits_for=waits_for,
        )
        _overlay(step, job, runtime.ml_policy)
        found.append(step)
    if not found:
        raise BadRuntime(f"the runtime {job.spec.runtime_ref.name} has no spec.template.spec.replicatedJobs")
    _check_size(found)
    _check_order(found)
    unready = view.network.publish_not_ready_addresses
    return Steps(
        steps=found,
        subdomain=view.network.subdomain or job.metadata.name,
        publishes_unready=unready is None or unready,
        metadata=metadata,
        spec=view,
    )


def spec_view(spec: Any, of: str) -> JobSetSpec:
    """Decode the spec of a JobSet, or a patch of one.

    Raises:
        BadRuntime: The value has the wrong shape.
    """
    try:
        return msgspec.convert(spec, JobSetSpec)
    except msgspec.ValidationError as error:
        raise BadRuntime(f"{of} is no JobSet's: {error}") from error


def _patched(job: TrainJob, runtime: TrainingRuntimeSpec) -> tuple[Json, Json]:
    """Return copies of metadata and spec of a runtime's template, with the patches of a TrainJob applied."""
    template = runtime.template
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    spec_view(spec, f"spec.template.spec of the runtime {job.spec.runtime_ref.name}")
    for entry in job.spec.runtime_patches:
        patch = (entry.get("trainingRuntimeSpec") or {}).get("template") or {}
        change = patch.get("spec") or {}
        spec_view(change, f"the patch of {entry.get('manager')}")
        known = {one.get("name") for one in spec.get("replicatedJobs") or ()}
        listed = [one for one in change.get("replicatedJobs") or () if one.get("name") in known]
        spec = merged(spec, {**change, "replicatedJobs": listed})
        metadata = merged(metadata, patch.get("metadata") or {})
    copied = msgspec.json.decode(msgspec.json.encode((metadata, spec)))
    return copied[0], copied[1]


def _overlay(step: ReplicatedJobTemplate, job: TrainJob, policy: MLPolicy | None) -> None:
    """Apply the TrainJob's settings to a step, in place."""
    initializers = {trainer.DATASET: job.spec.initializer.dataset, trainer.MODEL: job.spec.initializer.model}
    if step.part in initializers:
        step.replicas = 1
        for container in step.containers(step.part):
            _fetch(container, initializers[step.part])
    elif is_node(step, policy):
        step.replicas = 1
        _train(step, job, policy)


def is_node(step: ReplicatedJobTemplate, policy: MLPolicy | None) -> bool:
    """Return whether a step's pods train; with MPI the nodes train even if the launcher runs ranks too."""
    return step.part == trainer.TRAINER or (_mpi(policy) is not None and step.name == trainer.NODE)


def _mpi(policy: MLPolicy | None) -> MPIPolicy | None:
    return policy.mpi if policy is not None else None


def _train(step: ReplicatedJobTemplate, job: TrainJob, policy: MLPolicy | None) -> None:
    own, mpi = job.spec.trainer, _mpi(policy)
    count = own.num_nodes
    if count is None and policy is not None:
        count = 1 if policy.num_nodes is None else policy.num_nodes
    if mpi is not None:
        is_launcher = step.name == trainer.LAUNCHER
        step.pods = 1 if is_launcher else max(1, (count or 0) - mpi.run_launcher_as_node)
        has_ranks = not is_launcher or mpi.run_launcher_as_node
    else:
        has_ranks = True
        if count is not None:
            step.pods = count
    for container in step.containers(trainer.NODE):
        if step.part == trainer.TRAINER:
            step.of_runtime = tuple(container.get("command") or ())
            given = {"image": own.image, "command": own.command, "args": own.args}
            container.update({member: value for member, value in given.items() if value is not None})
        if own.resources_per_node is not None and has_ranks:
            asked = msgspec.to_builtins(own.resources_per_node)
            container["resources"] = merged(container.get("resources") or {}, asked)
        if own.env and (step.part == trainer.TRAINER or (mpi is not None and mpi.run_launcher_as_node)):
            container["env"] = with_variables(container.get("env"), own.env)


def _fetch(container: Json, given: InitializerStep | None) -> None:
    if given is None:
        return
    uri = [] if given.storage_uri is None else [{"name": _STORAGE_URI, "value": given.storage_uri}]
    container["env"] = with_variables(container.get("env"), [*uri, *given.env])
    if given.secret_ref is not None:
        source = {"secretRef": {"name": given.secret_ref.name}}
        container["envFrom"] = [*(container.get("envFrom") or ()), source]


def _check_size(steps: Sequence[ReplicatedJobTemplate]) -> None:
    """Refuse absurd sizes, because each Job is an object and each pod a line in a list of hosts.

    Raises:
        BadRuntime: There are too many Jobs or pods, or a negative number of them.
    """
    for step in steps:
        if step.replicas < 0 or step.pods < 0:
            raise BadRuntime(f"the replicated job {step.name} has fewer than 0 replicas or pods")
    jobs, pods = sum(one.replicas for one in steps), sum(one.replicas * one.pods for one in steps)
    if jobs > MOST_JOBS or pods > MOST_PODS:
        most = f"{MOST_JOBS} Jobs and {MOST_PODS} pods"
        raise BadRuntime(f"{jobs} Jobs of {pods} pods are more than a TrainJob may have: {most}")


def _check_order(steps: Sequence[ReplicatedJobTemplate]) -> None:
    """Refuse dependencies that can never be met.

    Raises:
        BadRuntime: A dependency names no step, or the dependencies form a circle.
    """
    by_name = {step.name: step for step in steps}
    for step in steps:
        for one in step.waits_for:
            if one.step not in by_name:
                raise BadRuntime(f"the replicated job {step.name} waits for {one.step!r}, which the runtime has not")
    done: set[str] = set()
    while len(done) < len(by_name):
        ready = {step.name for step in steps if all(one.step in done for one in step.waits_for)} - done
        if not ready:
            left = ", ".join(sorted(set(by_name) - done))
            raise BadRuntime(f"the replicated jobs {left} wait for each other in a circle")
        done |= ready


def upsert(holder: Json, member: str, more: Sequence[Mapping[str, Any]], key: str = "name") -> None:
    """Add elements to a list of a container or pod, or replace those with the same key, in place."""
    holder[member] = upserted(holder.get(member) or (), more, key)


def pod_view(step: ReplicatedJobTemplate) -> PodSpec:
    """Decode the spec of a step's pods; missing requests are set to the limits, as the API server does."""
    pod = dict(step.pod)
    for member in ("containers", "initContainers"):
        pod[member] = [_with_requests(one) for one in pod.get(member) or ()]
    return msgspec.convert(pod, PodSpec)


def _with_requests(container: Json) -> Json:
    given = container.get("resources") or {}
    requests = {**(given.get("limits") or {}), **(given.get("requests") or {})}
    return {**container, "resources": {**given, "requests": requests}}
