"""Read the facts in which a reason is found, from a cluster or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.trainer import JOBSET_NAME
from strato.cli.reasons.facts import Facts, owned_by, uid_of
from strato.cli.reasons.jobs import job_report, phase_of, replicas
from strato.cli.reasons.pods import when
from strato.cli.reasons.report import ReasonReport
from strato.client.cluster import Cluster, Json
from strato.clock import SystemClock
from strato.errors import ApiError, Forbidden, NotFound, StateError

JOB_LABEL = "volcano.sh/job-name"
_TRAINING_LABELS = {
    catalog.TFJOB.group: "training.kubeflow.org/job-name",
    catalog.TRAINJOB.group: JOBSET_NAME,
}
"""By API group: the label of a training job's pods that holds its name."""
KINDS: dict[str, tuple[Kind, ...]] = {
    "pod": (catalog.POD,),
    "job": (catalog.VCJOB, catalog.JOB),
    "vcjob": (catalog.VCJOB,),
    "podgroup": (catalog.PODGROUP,),
    "jobflow": (catalog.JOBFLOW,),
    "cronjob": (catalog.VCCRONJOB, catalog.CRONJOB),
    "deployment": (catalog.DEPLOYMENT,),
    "replicaset": (catalog.REPLICASET,),
    "statefulset": (catalog.STATEFULSET,),
    "daemonset": (catalog.DAEMONSET,),
    **{kind.singular: (kind,) for kind in catalog.TRAINING},  # both versions of MPIJob show the same objects
    "trainjob": (catalog.TRAINJOB,),
}
"""Kinds by the word that a user types before the name; of several, the first that has the object."""
_MANY_PODS = 2000
_MOST_READ = 5000
"""Most objects read of a kind; for a job whose pods are beyond them only the job itself is examined."""
_MOST_NAMED = 10
"""Most names listed as suggestions when no object has the typed name."""
_MOST_JOBS = 100
"""Most job names in one selector; for more jobs, the pods of all jobs are read."""


async def read(cluster: Cluster, word: str, namespace: str, name: str) -> tuple[Json, Facts]:
    """Return an object with its facts.

    Raises:
        StateError: No object has that name.
        ApiError: The server did not answer.
    """
    for kind in KINDS[word]:
        try:
            obj = {**await cluster.get(kind, name, namespace), "apiVersion": kind.api_version, "kind": kind.name}
        except NotFound:
            continue
        return obj, await facts_about(cluster, obj)
    raise StateError(await _missing(cluster, word, namespace, name))


async def _missing(cluster: Cluster, word: str, namespace: str, name: str) -> str:
    """Return the error for a missing object: it was deleted, if events show that, or was misspelled."""
    from strato.errors import nearest

    kinds = KINDS[word]
    events = await _list(cluster, catalog.EVENT, namespace, "", f"involvedObject.name={name}")
    events = [e for e in events if (e.get("involvedObject") or {}).get("kind") in {kind.name for kind in kinds}]
    if events:
        last = max(events, key=when)
        why = " (by hand, by its owner, or ttlSecondsAfterFinished after its end)"
        last_words = f"{last.get('reason', '')}: {last.get('message', '').strip()}"
        return f"the {word} {name!r} in namespace {namespace} was deleted{why}; the last event about it is {last_words}"
    known = [obj["metadata"]["name"] for kind in kinds for obj in await _list(cluster, kind, namespace)]
    if not known and (why := await _off(cluster, kinds[0])):
        return why
    hint = nearest(name, known)
    hint = hint if len(known) <= _MOST_NAMED or "did you mean" in hint else ""
    return f"there is no {word} {name!r} in namespace {namespace}{hint}"


async def _off(cluster: Cluster, kind: Kind) -> str:
    """Return a sentence that a kind of training job is turned off, and what turns it on; empty when it is on."""
    from strato.api import trainingkinds

    switch = trainingkinds.switch_of(kind)
    if not switch:
        return ""
    try:
        served = msgspec.json.decode(await cluster.raw("GET", f"/apis/{kind.api_version}"))
        if any(one.get("name") == kind.plural for one in served.get("resources") or ()):
            return ""
    except NotFound:
        pass
    how = f"--training-kinds of 'strato up', or 'strato install --set {trainingkinds.value_of(switch)}=true'"
    return f"this cluster has no {switch}s: the kind is off, or was never installed; it is turned on by {how}"


async def facts_about(cluster: Cluster, obj: Json) -> Facts:
    """Read the facts about an object: its pods, pod groups, jobs and events."""
    meta, kind = obj["metadata"], obj["kind"]
    namespace = meta.get("namespace", "")
    if kind == "Pod":
        return Facts([obj], events=await _events(cluster, namespace, obj))
    if kind == "Job" and obj["apiVersion"] == catalog.VCJOB.api_version:
        return await facts_of_jobs(cluster, namespace, [obj])
    if kind == "JobFlow":
        jobs = owned_by(await _list(cluster, catalog.VCJOB, namespace), obj)
        return await facts_of_jobs(cluster, namespace, jobs)
    if label := _TRAINING_LABELS.get(obj["apiVersion"].partition("/")[0]):
        pods, groups, events = await asyncio.gather(
            _list(cluster, catalog.POD, namespace, f"{label}={meta['name']}"),
            _list(cluster, catalog.PODGROUP, namespace),
            _events(cluster, namespace, obj),
        )
        jobs = await _list(cluster, catalog.JOB, namespace) if kind == catalog.TRAINJOB.name else []
        return Facts(pods, owned_by(groups, obj), events, owned_by(jobs, obj))
    if kind == "CronJob":
        return await _facts_of_cron(cluster, namespace, obj)
    if kind == "PodGroup":
        owners = [r for r in meta.get("ownerReferences") or () if r.get("apiVersion") == catalog.VCJOB.api_version]
        jobs = [job for job in [await _get(cluster, catalog.VCJOB, namespace, r["name"]) for r in owners] if job]
        return await facts_of_jobs(cluster, namespace, jobs, groups=[obj])
    sets = [] if kind != "Deployment" else await _list(cluster, catalog.REPLICASET, namespace)
    labels = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods, events = await asyncio.gather(
        _list(cluster, catalog.POD, namespace, selector), _events(cluster, namespace, obj)
    )
    return Facts(pods, events=events, replica_sets=sets)


async def _facts_of_cron(cluster: Cluster, namespace: str, cron: Json) -> Facts:
    of_volcano = cron["apiVersion"] == catalog.VCCRONJOB.api_version
    kind, label = (catalog.VCJOB, JOB_LABEL) if of_volcano else (catalog.JOB, "batch.kubernetes.io/job-name")
    jobs = owned_by(await _list(cluster, kind, namespace), cron)
    if jobs:
        facts = await facts_of_jobs(cluster, namespace, jobs, groups=None if of_volcano else (), label=label)
    else:
        facts = Facts(events=await _events(cluster, namespace, cron))
    return replace(facts, now=SystemClock().now())


async def facts_of_jobs(
    cluster: Cluster,
    namespace: str,
    jobs: Sequence[Json],
    *,
    groups: Sequence[Json] | None = None,
    label: str = JOB_LABEL,
    fields: str = "",
    with_events: bool = True,
) -> Facts:
    """Read the facts about jobs: their pods, pod groups and events.

    Args:
        cluster: The jobs' cluster.
        namespace: Namespace of all jobs; "" is every namespace.
        jobs: The jobs as read.
        groups: Their pod groups, if the caller has read them; otherwise they are read.
        label: The label of their pods that holds the job's name.
        fields: A field selector that narrows their pods.
        with_events: Whether events are read too.
    """
    names = sorted({job["metadata"]["name"] for job in jobs})
    selector = f"{label} in ({','.join(names)})" if 0 < len(names) <= _MOST_JOBS else label
    if groups is not None and not jobs:
        selector = ""  # a pod group without a job: pods join it by an annotation, so all are read
    pods, found, events = await asyncio.gather(
        _list(cluster, catalog.POD, namespace, selector, fields),
        _groups(cluster, namespace, jobs) if groups is None else _none(groups),
        _events(cluster, namespace, *jobs) if with_events else _none(),
    )
    return Facts(pods, found, events, jobs)


async def reports_of_jobs(cluster: Cluster, namespace: str, jobs: Sequence[Json]) -> dict[str, ReasonReport]:
    """Return why jobs that were read are as they are, by uid; those that completed are left out.

    If the jobs have very many pods, running ones are not read.
    """
    asked = [job for job in jobs if phase_of(job) != "Completed"]
    if not asked:
        return {}
    many = sum(replicas(job) for job in asked) > _MANY_PODS
    fields = "status.phase!=Succeeded" + (",status.phase!=Running" if many else "")
    facts = await facts_of_jobs(cluster, namespace, asked, fields=fields, with_events=any(map(_needs_events, asked)))
    return {uid_of(job): job_report(job, facts) for job in asked}


def _needs_events(job: Json) -> bool:
    """Whether events may explain what neither the job's status nor its pods do."""
    message = ((job.get("status") or {}).get("state") or {}).get("message")
    return phase_of(job) not in ("Running", "Failed", "Completing") and not message


async def report_on_job(cluster: Cluster, namespace: str, name: str) -> ReasonReport | None:
    """Return why a job is as it is; None if the server fails, as callers only add the reason to a finished command."""
    try:
        return job_report(*await read(cluster, "vcjob", namespace, name))
    except (ApiError, StateError):
        return None


def facts_in(objects: Iterable[Json]) -> Facts:
    """Return the facts among objects of files."""
    facts: dict[str, list[Json]] = {"Pod": [], "PodGroup": [], "Event": [], "Job": [], "ReplicaSet": []}
    for obj in objects:
        if obj.get("kind") in facts:
            facts[obj["kind"]].append(obj)
    return Facts(facts["Pod"], facts["PodGroup"], facts["Event"], facts["Job"], facts["ReplicaSet"])


async def _groups(cluster: Cluster, namespace: str, jobs: Sequence[Json]) -> list[Json]:
    if len(jobs) != 1:
        return await _list(cluster, catalog.PODGROUP, namespace)
    name = jobs[0]["metadata"]["name"]
    found = [await _get(cluster, catalog.PODGROUP, namespace, one) for one in (f"{name}-{uid_of(jobs[0])}", name)]
    return [group for group in found if group is not None]


async def _events(cluster: Cluster, namespace: str, *about: Json) -> list[Json]:
    """Return a namespace's warnings, and the normal events about one job, or all: commands to a job are such events."""
    which = f"involvedObject.uid={uid_of(about[0])}" if len(about) == 1 else "involvedObject.kind=Job"
    fields = ["type=Warning", f"{which},type=Normal"]
    pages = await asyncio.gather(*(_list(cluster, catalog.EVENT, namespace, "", one) for one in fields))
    return [event for page in pages for event in page]


async def _none(known: Sequence[Json] = ()) -> list[Json]:
    return list(known)


async def _get(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Json | None:
    try:
        return {**await cluster.get(kind, name, namespace), "apiVersion": kind.api_version, "kind": kind.name}
    except (NotFound, Forbidden):
        return None


async def _list(cluster: Cluster, kind: Kind, namespace: str, labels: str = "", fields: str = "") -> list[Json]:
    """Return the objects of a kind; none if the server lacks the kind or the user may not list it."""
    try:
        page = await cluster.list(kind, namespace, label_selector=labels, field_selector=fields, limit=_MOST_READ)
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise
    return [{**item, "apiVersion": kind.api_version, "kind": kind.name} for item in page.items]
