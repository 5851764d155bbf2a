"""Makes the pod groups and pods of a trace's jobs, with the content that they would have in a cluster.

A `SubmissionTemplate` is made once for all jobs with equal requests, annotations and so on: a job with the name `_NAME`
and the uid `_UID` goes through admission, the job controller's functions build its pod group and one pod, and these go
through admission too. For each job of the template its own name and uid then take the place of these two texts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from strato.admission import Chain
from strato.admission.request import AdmissionReader, AdmissionRequest, Operation
from strato.api import catalog
from strato.api.core import Pod
from strato.api.kinds import Kind
from strato.api.meta import Json, ObjectMeta
from strato.api.volcano.batch import Job
from strato.api.volcano.scheduling import PodGroup
from strato.controllers.job import group as groups
from strato.controllers.job.compiledspec import CompiledSpec
from strato.controllers.job.podbuilder import PodBuilder, templates_of
from strato.errors import ApiError
from strato.lru import LruCache
from strato.sim.cluster import ADMINISTRATOR
from strato.sim.submission import NAMESPACE, manifest_of
from strato.sim.traces import TraceJob

_NAME: Final = "name-of-the-template"
_UID: Final = "00000000-0000-4000-8000-ffffffffffff"
_KEPT_BYTES: Final = 128 << 20
_TEMPLATE_BYTES: Final = 16_000
"""About the memory of a template."""


class SubmissionTemplate:
    """Pod group and pod of all jobs that differ in name, uid and run time only.

    Attributes:
        refusal: Why admission refuses such jobs; empty if it admits them.
        group: The pod group of a job called `_NAME`.
        pod: The first pod of that job.
        compiled: The job's spec as the job controller compiles it.
    """

    __slots__ = ("_annotations", "_group_name", "_labels", "compiled", "group", "pod", "refusal")

    def __init__(self, job: Job, group: PodGroup, pod: Pod, compiled: CompiledSpec) -> None:
        self.refusal = ""
        self.group = group
        self.pod = pod
        self.compiled = compiled
        self._labels = _Named(pod.metadata.labels or {})
        self._annotations = _Named(pod.metadata.annotations or {})
        self._group_name = groups.group_name(job)

    def group_of(self, name: str, uid: str, *, group_uid: str, created: str) -> PodGroup:
        """Return a new pod group for a job."""
        group = self.group
        group_name = _named(self._group_name, name, uid)
        return replace(
            group, metadata=replace(group.metadata, name=group_name, uid=group_uid, creation_timestamp=created)
        )

    def metadata_of(self, name: str, uid: str) -> ObjectMeta:
        """Return the metadata that the pods of a job share; name, uid and creation time are to be set for each pod."""
        meta = self.pod.metadata
        return replace(
            meta,
            labels=self._labels.of(name, uid),
            annotations=self._annotations.of(name, uid),
            owner_references=[replace(owner, name=name, uid=uid) for owner in meta.owner_references or ()],
        )


class _Named:
    """Labels or annotations of the template's pod, some of which contain the name or the uid of the job."""

    __slots__ = ("_all", "_varying")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._all = dict(texts)
        self._varying = [(key, text) for key, text in texts.items() if _NAME in text or _UID in text]

    def of(self, name: str, uid: str) -> dict[str, str]:
        """Return them with a job's name and uid."""
        made = self._all.copy()
        for key, text in self._varying:
            made[key] = _named(text, name, uid)
        return made


def _named(text: str, name: str, uid: str) -> str:
    return text.replace(_NAME, name).replace(_UID, uid)


class RefusedTemplate(SubmissionTemplate):
    """The template of jobs that admission refuses; only `refusal` is set."""

    __slots__ = ()

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal


class Templates:
    """Makes templates and keeps those used last.

    Args:
        reader: The objects that admission reads.
        chain: Admission; None takes a `Chain` with its defaults.
    """

    def __init__(self, reader: AdmissionReader, chain: Chain | None = None) -> None:
        self._reader = reader
        self._chain = chain if chain is not None else Chain()
        self._known: LruCache[Hashable, SubmissionTemplate] = LruCache(_KEPT_BYTES, lambda *_: _TEMPLATE_BYTES)

    def of(self, job: TraceJob) -> SubmissionTemplate:
        """Return the template of a trace's job, made now or kept."""
        key = _key(job)
        found = self._known.get(key)
        if found is None:
            found = self._known.put(key, self._make(job))
        return found

    def _make(self, trace_job: TraceJob) -> SubmissionTemplate:
        manifest = manifest_of(trace_job)
        try:
            self._admit(catalog.VCJOB, manifest, trace_job.name)
        except ApiError as error:
            return RefusedTemplate(str(error))
        manifest["metadata"] |= {"name": _NAME, "uid": _UID}
        compiled = CompiledSpec(msgspec.convert(manifest, Job))
        job = replace(msgspec.convert(manifest, Job), spec=compiled.spec)
        group = groups.build_group(job, compiled.group(job, self._priority_of).spec)
        self._admit(catalog.PODGROUP, group, group["metadata"]["name"])
        task = job.spec.tasks[0]
        builder = PodBuilder(job, task, templates_of(manifest)[0], group=groups.group_name(job))
        pod = builder.pod(0, job.status.version, job.status.retry_count)
        self._admit(catalog.POD, pod, pod["metadata"]["name"])
        for made in (group, pod):
            made["metadata"]["generation"] = 1
        return SubmissionTemplate(job, msgspec.convert(group, PodGroup), _pod(pod), compiled)

    def _admit(self, kind: Kind, body: Json, name: str) -> None:
        request = AdmissionRequest(Operation.CREATE, kind, NAMESPACE, name, body, user=ADMINISTRATOR)
        self._chain.admit(request, self._reader)

    def _priority_of(self, name: str) -> int:
        found = self._reader.get(catalog.PRIORITYCLASS, "", name)
        return int(found.get("value", 0)) if found is not None else 0


def _pod(body: dict[str, Any]) -> Pod:
    """Decode a new pod and set its phase, as the server does; its name and uid are set later for each pod."""
    pod = msgspec.convert(body, Pod)
    return replace(pod, status=replace(pod.status, phase="Pending"))


def _key(job: TraceJob) -> Hashable:
    """Return the key of a job's template: everything its manifest depends on, except the name and the run time."""
    return (
        tuple(job.requests.items()),
        job.replicas,
        job.min_replicas,
        job.queue,
        job.priority,
        job.estimate_seconds,
        job.user,
        tuple(job.node_selector.items()) if job.node_selector else (),
        tuple(job.annotations.items()) if job.annotations else (),
    )
