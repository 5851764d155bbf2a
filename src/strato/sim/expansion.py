"""`expand`: turns workload manifests into the pods, pod groups and claims that controllers would make of them.

The workloads are created on a private cluster in virtual time: its admission sets defaults and refuses objects as that
of any cluster, and the real controllers create the objects; no rule of a Job or a Deployment is repeated here. The
results have no node and one creation time, as if all had been applied in the same second.

To support a further kind that ends in pods, write its controller and add a row to `WORKLOADS`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec

from strato.api import catalog
from strato.api.core import Pod
from strato.api.frameworks import BY_KIND
from strato.api.kinds import Kind
from strato.api.meta import Json, ObjectMeta
from strato.api.volcano.scheduling import PodGroup
from strato.client.cluster import Cluster
from strato.clock import VirtualClock, format_time, run_virtual
from strato.controllers.cron.build import job_of
from strato.controllers.cron.schedule import InvalidSchedule, InvalidTimeZone, Schedule, find_zone
from strato.controllers.cron.variants import KUBERNETES, VOLCANO
from strato.errors import AlreadyExists, ApiError, NotFound, Problem
from strato.sim.cluster import ClusterOptions, SimulatedCluster

Located = tuple[str, Json]
"""The place from which an object was read, as messages name it, and the object."""

WORKLOADS: Final[Mapping[Kind, tuple[str, ...]]] = {
    catalog.VCJOB: ("job-controller",),
    catalog.VCCRONJOB: ("job-controller",),
    catalog.JOBFLOW: ("jobflow-controller", "job-controller"),
    catalog.JOB: ("kube-job-controller",),
    catalog.CRONJOB: ("kube-job-controller",),
    catalog.DEPLOYMENT: ("kube-deployment-controller", "kube-replicaset-controller"),
    catalog.REPLICASET: ("kube-replicaset-controller",),
    catalog.REPLICATIONCONTROLLER: ("kube-replicationcontroller-controller",),
    catalog.STATEFULSET: ("kube-statefulset-controller",),
    catalog.DAEMONSET: ("kube-daemonset-controller",),
    **{kind: (BY_KIND[kind].controller,) for kind in catalog.TRAINING},
    catalog.MPIJOB: (BY_KIND[catalog.MPIJOB].controller, "kube-job-controller"),
    catalog.TRAINJOB: ("trainjob-controller", "kube-job-controller"),
}
"""Kinds whose objects end in pods → the controllers that create these."""
_ALWAYS: Final = ("queue-controller", "pg-controller", "kube-serviceaccount-controller")
_CRONS: Final = {variant.cron_kind: variant for variant in (VOLCANO, KUBERNETES)}
CONTEXT: Final = (
    catalog.NAMESPACE,
    catalog.QUEUE,
    catalog.PRIORITYCLASS,
    catalog.LIMITRANGE,
    catalog.SERVICEACCOUNT,
    catalog.JOBTEMPLATE,
    catalog.TRAININGRUNTIME,
    catalog.CLUSTERTRAININGRUNTIME,
    catalog.PERSISTENTVOLUMECLAIM,
    catalog.NODE,
)
"""Kinds that admission and controllers read. Objects that the server refuses are left out without a message here: the
dry run reports them when it loads the state (`load` in `strato.scheduler.dryrun.run`)."""
_RESULT_KINDS: Final = (
    catalog.VCJOB,
    catalog.JOB,
    catalog.REPLICASET,
    catalog.REPLICATIONCONTROLLER,
    catalog.PERSISTENTVOLUMECLAIM,
    catalog.PODGROUP,
    catalog.POD,
)
"""Kinds of the objects that `expand` returns, owners before what they own."""

_ALTERNATIVES: Final[Mapping[str, str]] = {
    "HyperJob": "write a Job (batch.volcano.sh/v1alpha1) for each of its parts",
    "RayJob": "write a Job (batch.volcano.sh/v1alpha1) with the plugin ray",
    "RayCluster": "write a Job (batch.volcano.sh/v1alpha1) with the plugin ray",
    "Workflow": "write a JobFlow (flow.volcano.sh/v1alpha1) with JobTemplates",
}
"""Kinds that end in pods on other clusters but are not served here → what the user can write in their place."""

_ENDED: Final = ("Completed", "Failed", "Terminated", "Aborted")
_BUSY_SECONDS: Final = 0.02
"""Time between two polls of the store while it changes. Short, as a StatefulSet creates one pod after another."""
_QUIET_SECONDS: Final = 0.5
_QUIET_POLLS: Final = 7
"""Polls without a change after which nothing more is expected; together longer than any timer of the controllers."""
_MOST_POLLS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Expansion:
    """The result of `expand`.

    Attributes:
        objects: The objects passed in, with workloads as the server stored them, and the objects made of them.
        problems: Why the server refused workloads; if it refused any, ``objects`` lacks all workloads.
        notes: Sentences for the user about kinds that are not served and pods that controllers could not create.
    """

    objects: Sequence[Located]
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def expand(objects: Sequence[Located], given: Iterable[Located], now: float, seed: int = 0) -> Expansion:
    """Add to a state the objects that controllers would create for its new workloads.

    Args:
        objects: All objects of the state.
        given: Those among them that the user wants to apply. Workloads that have ended, or that own objects of the
            state already, stay as they are.
        now: When they are applied, seconds since the epoch.
        seed: Seeds the random parts of generated names.
    """
    applied = [(where, obj, _kind(obj)) for where, obj in given]
    notes = _not_served((obj, kind) for _, obj, kind in applied)
    owners = {_owner(obj, owner) for _, obj in objects for owner in _owners(obj)}
    workloads = [
        (where, obj, kind)
        for where, obj, kind in applied
        if kind is not None and kind in WORKLOADS and not _has_ended(obj) and _key(kind, obj) not in owners
    ]
    if not workloads:
        return Expansion(objects, (), notes)
    clock = VirtualClock(float(int(now)))
    expander = _Expander(clock, Random(seed), [obj for _, obj in objects], workloads)
    log = logging.getLogger("strato")
    level = log.level
    log.setLevel(logging.CRITICAL)  # notes report once what could not be created; the log would for each attempt
    try:
        made, problems = run_virtual(clock, expander.run())
    finally:
        log.setLevel(level)
    kept = [(where, obj) for where, obj in objects if not any(obj is one for _, one, _ in workloads)]
    return Expansion([*kept, *made], problems, [*notes, *expander.notes])


Workload = tuple[str, Json, Kind]


def _waits_for_others(value: object) -> bool:
    """Whether a part of a spec has the field ``dependsOn``: of a task, a flow or a replicated job."""
    if isinstance(value, dict):
        return "dependsOn" in value or any(map(_waits_for_others, value.values()))
    return isinstance(value, list) and any(map(_waits_for_others, value))


class _Expander:
    """Expands workloads once, on a cluster of its own."""

    def __init__(
        self, clock: VirtualClock, random: Random, objects: Sequence[Json], workloads: Sequence[Workload]
    ) -> None:
        kinds = {kind for _, _, kind in workloads}
        names = dict.fromkeys(name for kind in kinds for name in WORKLOADS[kind])
        controllers = tuple(sorted([*names, *_ALWAYS]))
        self._clock = clock
        self._cluster = SimulatedCluster(clock, random, ClusterOptions(scheduler=False, controllers=controllers))
        self._pods = self._cluster.informers.informer(Pod)
        self._groups = self._cluster.informers.informer(PodGroup)
        self._objects = objects
        self._workloads = workloads
        self._begun = clock.now()
        self._runs_pods = catalog.STATEFULSET in kinds or any(
            _waits_for_others(obj.get("spec")) for _, obj, _ in workloads
        )
        self.notes: list[str] = []

    async def run(self) -> tuple[list[Located], list[Problem]]:
        cluster, problems = self._cluster, list[Problem]()
        await cluster.start()
        try:
            await self._prepare()
            wheres: dict[tuple[str, str, str], str] = {}
            for where, obj, kind in self._workloads:
                try:
                    stored = await self._apply(kind, obj)
                except (ApiError, InvalidSchedule, InvalidTimeZone) as error:
                    problems += _problems(where, error)
                else:
                    wheres[_key(kind, stored)] = where
            await cluster.guard(self._settle())
            failures = await self._failures()
            made = [] if problems else [*await self._results(wheres), *(("events", event) for event in failures)]
            about = [(event["involvedObject"], event["message"]) for event in failures]
            self.notes += dict.fromkeys(f"{o['kind']} {o['namespace']}/{o['name']}: {text}" for o, text in about)
        finally:
            await cluster.stop()
        return made, problems

    async def _prepare(self) -> None:
        """Create what admission and controllers read; what is refused is tried again once others are there.

        So a child queue may stand before its parent. What is still refused in the end is left out.
        """
        admin = self._cluster.admin
        for name in sorted({_namespace(obj) for obj in self._objects} - {"default"}):
            with suppress(ApiError):  # an invalid namespace too: the server refuses each object in it with a message
                await admin.create(catalog.NAMESPACE, _bare(catalog.NAMESPACE, name, ""))
        for _, obj, _ in self._workloads:
            for account in _accounts(obj):
                with suppress(ApiError):
                    body = _bare(catalog.SERVICEACCOUNT, account, _namespace(obj))
                    await admin.create(catalog.SERVICEACCOUNT, body, _namespace(obj))
        waiting = [(kind, obj) for kind in CONTEXT for obj in self._objects if _kind(obj) is kind]
        while waiting:
            refused = [(kind, obj) for kind, obj in waiting if not await _try_create(admin, kind, obj)]
            if len(refused) == len(waiting):
                return
            waiting = refused

    async def _apply(self, kind: Kind, obj: Json) -> Json:
        """Create a workload as kubectl does; for a cron job create the job of its next scheduled time too."""
        admin, namespace = self._cluster.admin, _namespace(obj)
        body = {key: value for key, value in obj.items() if key != "status"}
        body["metadata"] = _metadata(obj, namespace)
        answer = await admin.raw(
            "POST", kind.path(namespace), query={"fieldValidation": "Strict"}, body=msgspec.json.encode(body)
        )
        stored: Json = msgspec.json.decode(answer)
        variant = _CRONS.get(kind)
        if variant is not None:
            spec, meta = stored["spec"], msgspec.convert(stored["metadata"], ObjectMeta)
            zone = find_zone(spec.get("timeZone"))
            at = Schedule(spec["schedule"], zone).next_after(self._begun)
            await admin.create(variant.job_kind, job_of(variant, meta, spec["jobTemplate"], at, zone), namespace)
        return stored

    async def _settle(self) -> None:
        """Admit pod groups in place of the scheduler, until controllers create nothing more."""
        quiet, last = 0, -1
        for _ in range(_MOST_POLLS):
            await self._clock.sleep(_QUIET_SECONDS if quiet else _BUSY_SECONDS)
            await self._admit_and_start()
            revision = self._cluster.server.store.revision
            quiet = quiet + 1 if revision == last else 0
            last = revision
            if quiet >= _QUIET_POLLS:
                return
        self.notes.append("controllers would go on making objects; what they had made so far was decided on")

    async def _admit_and_start(self) -> None:
        """Admit waiting pod groups; where controllers wait for running pods, set waiting pods running."""
        admin = self._cluster.admin
        for group in self._groups.list():
            if group.status.phase in ("", "Pending"):
                key = group.metadata
                status = {"status": {"phase": "Inqueue"}}
                await admin.patch(catalog.PODGROUP, key.name, key.namespace, status)
        if not self._runs_pods:
            return
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(self._clock.now())}
        for pod in self._pods.list():
            if pod.status.phase == "Pending":
                states = [
                    {"name": one.name, "image": one.image, "imageID": "", "ready": True, "restartCount": 0}
                    for one in pod.spec.containers
                ]
                running = {"status": {"phase": "Running", "conditions": [ready], "containerStatuses": states}}
                key = pod.metadata
                await admin.patch(catalog.POD, key.name, key.namespace, running, subresource="status")

    async def _results(self, wheres: Mapping[tuple[str, str, str], str]) -> list[Located]:
        """Return the workloads and the objects made of them, all of one creation time and none running yet.

        Args:
            wheres: Key of a workload → the place from which it was read.
        """
        admin, there = self._cluster.admin, {_key(kind, obj) for obj in self._objects if (kind := _kind(obj))}
        found: list[Located] = []
        names: dict[tuple[str, str, str], str] = dict(wheres)
        # two versions of a kind list the same objects: one of them is enough
        for kind in {one.resource: one for one in (*WORKLOADS, *_RESULT_KINDS)}.values():
            for item in (await admin.list(kind)).items:
                key = _key(kind, item)
                where = names.get(key)
                if where is None:
                    if key in there:
                        continue  # the caller has it
                    owner = next((names[o] for one in _owners(item) if (o := _owner(item, one)) in names), "")
                    where = names[key] = f"{owner or 'made'} ({kind.name} {key[2]})".removeprefix("made ")
                found.append((where, self._as_new(kind, item)))
        return found

    def _as_new(self, kind: Kind, item: Json) -> Json:
        meta = {name: value for name, value in item["metadata"].items() if name not in ("managedFields", "generation")}
        meta["creationTimestamp"] = format_time(self._begun)
        new = {"apiVersion": kind.api_version, "kind": kind.name, **item, "metadata": meta}
        new.pop("status", None)
        if kind in (catalog.POD, catalog.PODGROUP):
            new["status"] = {"phase": "Pending"}
        return new

    async def _failures(self) -> list[Json]:
        """Return the first FailedCreate event of each owner whose pods a controller could not create."""
        found: dict[tuple[str, str, str], Json] = {}
        for event in (await self._cluster.admin.list(catalog.EVENT)).items:
            about = event["involvedObject"]
            if event.get("type") == "Warning" and event.get("reason") == "FailedCreate":
                place = (about["kind"], about.get("namespace", ""), about["name"])
                found.setdefault(place, self._as_new(catalog.EVENT, event))
        return list(found.values())


async def _try_create(admin: Cluster, kind: Kind, obj: Json) -> bool:
    """Create an object that admission or controllers read, or give an existing one of that name its spec.

    Returns whether to stop trying: it was created, or it cannot be because its kind or namespace is not there.
    """
    namespace = _namespace(obj) if kind.namespaced else ""
    body = {key: value for key, value in obj.items() if key != "status"}
    body |= {"apiVersion": kind.api_version, "kind": kind.name, "metadata": _metadata(obj, namespace)}
    name = str(body["metadata"].get("name"))
    try:
        try:
            await admin.create(kind, body, namespace)
        except AlreadyExists:
            await admin.patch(kind, name, namespace, {key: body[key] for key in ("spec", "metadata") if key in body})
        if kind is catalog.QUEUE and isinstance(obj.get("status"), dict) and obj["status"].get("state"):
            state = {"status": {"state": obj["status"]["state"]}}
            await admin.patch(kind, name, "", state, subresource="status")
    except NotFound:
        return True
    except ApiError:
        return False
    return True


def _not_served(applied: Iterable[tuple[Json, Kind | None]]) -> list[str]:
    """Return a sentence for each kind that is not served, so that nothing is made of its objects."""
    counts: dict[tuple[str, str], int] = {}
    for obj, kind in applied:
        name = str(obj.get("kind"))
        if obj.get("apiVersion") and (kind is None or name in _ALTERNATIVES):
            key = (name, str(obj["apiVersion"]))
            counts[key] = counts.get(key, 0) + 1
    return [
        f"{count} of kind {name} ({version}) passed over: the kind is not served, nothing makes pods of it; "
        f"{_ALTERNATIVES.get(name, 'give the pods it stands for, or write it as a Job or a Deployment')}"
        for (name, version), count in sorted(counts.items())
    ]


def _problems(where: str, error: Exception) -> list[Problem]:
    causes = error.causes if isinstance(error, ApiError) else ()
    found = [Problem(f"{where}: {cause.field}", cause.message) for cause in causes if cause.field]
    return found or [Problem(where, error.message if isinstance(error, ApiError) else str(error))]


def _kind(obj: Json) -> Kind | None:
    return catalog.find_named(str(obj.get("apiVersion", "")), str(obj.get("kind")))


def _metadata(obj: Json, namespace: str) -> Json:
    """Return an object's metadata without the members that the server sets."""
    meta = obj.get("metadata")
    given = meta if isinstance(meta, dict) else {}
    kept = ("name", "generateName", "labels", "annotations")
    return {key: given[key] for key in kept if key in given} | ({"namespace": namespace} if namespace else {})


def _namespace(obj: Json) -> str:
    meta = obj.get("metadata")
    return str((meta.get("namespace") if isinstance(meta, dict) else None) or "default")


def _bare(kind: Kind, name: str, namespace: str) -> Json:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}


def _key(kind: Kind, obj: Json) -> tuple[str, str, str]:
    meta = obj.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else ""
    return f"{kind.group}/{kind.name}", _namespace(obj) if kind.namespaced else "", str(name)


def _owners(obj: Json) -> Sequence[Json]:
    meta = obj.get("metadata")
    owners = meta.get("ownerReferences") if isinstance(meta, dict) else ()
    return [one for one in owners if isinstance(one, dict)] if isinstance(owners, list) else ()


def _owner(obj: Json, owner: Json) -> tuple[str, str, str]:
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    return f"{group}/{owner.get('kind')}", _namespace(obj), str(owner.get("name"))


def _has_ended(obj: Json) -> bool:
    """Whether a workload's status says that it has succeeded, failed, or been stopped."""
    status = obj.get("status")
    if not isinstance(status, dict):
        return False
    state = status.get("state")
    conditions = status.get("conditions")
    return (isinstance(state, dict) and state.get("phase") in _ENDED) or any(
        isinstance(one, dict) and one.get("type") in ("Complete", "Succeeded", "Failed") and one.get("status") == "True"
        for one in (conditions if isinstance(conditions, list) else ())
    )


def _accounts(value: Any) -> set[str]:
    """Return the service accounts that a workload's templates name."""
    if isinstance(value, list):
        return {name for part in value for name in _accounts(part)}
    if not isinstance(value, dict):
        return set()
    own = {value[key] for key in ("serviceAccountName", "serviceAccount") if isinstance(value.get(key), str)}
    return own.union(*map(_accounts, value.values())) - {""}
