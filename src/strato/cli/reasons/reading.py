"""Read what a reason is found in: from a cluster, or from the objects of files."""

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
from strato.cli.reasons.report import Report
from strato.client.cluster import Cluster, Json
from strato.clock import SystemClock
from strato.errors import ApiError, Forbidden, NotFound, StateError

JOB_LABEL = "volcano.sh/job-name"
_TRAINING_LABELS = {
    catalog.TFJOB.group: "training.kubeflow.org/job-name",
    catalog.TRAINJOB.group: JOBSET_NAME,
}
"""By group: what the pods of a training have its name in."""
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
    **{kind.singular: (kind,) for kind in catalog.TRAINING},  # of an MPIJob both versions show the same
    "trainjob": (catalog.TRAINJOB,),
}
"""What may be asked about, and the kinds it may be, the first that is there."""
_MANY_PODS = 2000
_MOST_READ = 5000
"""Objects that are read of a kind; reasons of those that are beyond them are found in the job alone."""
_MOST_NAMED = 10
"""Objects that are listed for a name that is none of theirs."""
_MOST_JOBS = 100
"""Names of jobs in one selector; of more jobs the pods of all are read."""


async def read(cluster: Cluster, word: str, namespace: str, name: str) -> tuple[Json, Facts]:
    """Return an object and what belongs to it.

    Raises:
        StateError: There is none of that name.
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
    """Say that an object is not there: that it was, when events tell so, or which one may be meant."""
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
    """Return that a kind of training job is off here, and what turns it on; empty when it is not."""
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
    """Return what belongs to an object that was read."""
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
    """Return what belongs to jobs.

    Args:
        cluster: Where they are.
        namespace: Of all of them; "" is every one.
        jobs: As read.
        groups: Their pod groups, where known.
        label: What their pods have the job's name in.
        fields: A field selector that narrows their pods.
        with_events: Whether events are read too.
    """
    names = sorted({job["metadata"]["name"] for job in jobs})
    selector = f"{label} in ({','.join(names)})" if 0 < len(names) <= _MOST_JOBS else label
    if groups is not None and not jobs:
        selector = ""  # pods that others put into the group
    pods, found, events = await asyncio.gather(
        _list(cluster, catalog.POD, namespace, selector, fields),
        _groups(cluster, namespace, jobs) if groups is None else _none(groups),
        _events(cluster, namespace, *jobs) if with_events else _none(),
    )
    return Facts(pods, found, events, jobs)


async def reports_of_jobs(cluster: Cluster, namespace: str, jobs: Sequence[Json]) -> dict[str, Report]:
    """Return why jobs that were read are as they are, by uid; those that completed are left out.

    Of very many pods only those are read that do not run.
    """
    asked = [job for job in jobs if phase_of(job) != "Completed"]
    if not asked:
        return {}
    many = sum(replicas(job) for job in asked) > _MANY_PODS
    fields = "status.phase!=Succeeded" + (",status.phase!=Running" if many else "")
    facts = await facts_of_jobs(cluster, namespace, asked, fields=fields, with_events=any(map(_needs_events, asked)))
    return {uid_of(job): job_report(job, facts) for job in asked}


def _needs_events(job: Json) -> bool:
    """Whether events may say of a job what its status and its pods do not."""
    message = ((job.get("status") or {}).get("state") or {}).get("message")
    return phase_of(job) not in ("Running", "Failed", "Completing") and not message


async def report_on_job(cluster: Cluster, namespace: str, name: str) -> Report | None:
    """Return why a job is as it is; None when the server cannot say, as those who ask have done their work already."""
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
    """Return the warnings of a namespace, and of what is asked about all events: also an order to it is one."""
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
    """Return the objects of a kind; none where the server has no such kind, or does not let us read it."""
    try:
        page = await cluster.list(kind, namespace, label_selector=labels, field_selector=fields, limit=_MOST_READ)
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise
    return [{**item, "apiVersion": kind.api_version, "kind": kind.name} for item in page.items]
