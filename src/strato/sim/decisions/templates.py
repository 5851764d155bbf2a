"""What the jobs of a trace look like to the scheduler: their pod groups and pods, as a cluster would have made them.

A `Template` is made once for all jobs that ask for the same: its job goes through admission, the job controller's
functions build its group and a pod, and these go through admission too. What differs between the jobs of one template
are names and uids; they are found by building it for a job with known ones.
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
"""About what one takes."""


class Template:
    """What jobs share that ask for the same.

    Attributes:
        refusal: Why admission does not let such a job in; empty when it does.
        group: Of a job called `_NAME`.
        pod: Its first pod.
        compiled: What the job controller makes of the spec.
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
        """Return the pod group of a job, as it is created."""
        group = self.group
        group_name = _named(self._group_name, name, uid)
        return replace(
            group, metadata=replace(group.metadata, name=group_name, uid=group_uid, creation_timestamp=created)
        )

    def metadata_of(self, name: str, uid: str) -> ObjectMeta:
        """Return the metadata that the pods of a job share; each has a name, a uid and a creation time besides."""
        meta = self.pod.metadata
        return replace(
            meta,
            labels=self._labels.of(name, uid),
            annotations=self._annotations.of(name, uid),
            owner_references=[replace(owner, name=name, uid=uid) for owner in meta.owner_references or ()],
        )


class _Named:
    """Texts of which some hold the name or the uid of their job."""

    __slots__ = ("_all", "_varying")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._all = dict(texts)
        self._varying = [(key, text) for key, text in texts.items() if _NAME in text or _UID in text]

    def of(self, name: str, uid: str) -> dict[str, str]:
        """Return them for a job."""
        made = self._all.copy()
        for key, text in self._varying:
            made[key] = _named(text, name, uid)
        return made


def _named(text: str, name: str, uid: str) -> str:
    return text.replace(_NAME, name).replace(_UID, uid)


class Refused(Template):
    """What such jobs share that admission does not let in."""

    __slots__ = ()

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal


class Templates:
    """The templates used lately.

    Args:
        reader: What admission reads.
        chain: Admission; our own rules unless given.
    """

    def __init__(self, reader: AdmissionReader, chain: Chain | None = None) -> None:
        self._reader = reader
        self._chain = chain if chain is not None else Chain()
        self._known: LruCache[Hashable, Template] = LruCache(_KEPT_BYTES, lambda *_: _TEMPLATE_BYTES)

    def of(self, job: TraceJob) -> Template:
        """Return the template of a trace's job."""
        key = _key(job)
        found = self._known.get(key)
        if found is None:
            found = self._known.put(key, self._make(job))
        return found

    def _make(self, trace_job: TraceJob) -> Template:
        manifest = manifest_of(trace_job)
        try:
            self._admit(catalog.VCJOB, manifest, trace_job.name)
        except ApiError as error:
            return Refused(str(error))
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
        return Template(job, msgspec.convert(group, PodGroup), _pod(pod), compiled)

    def _admit(self, kind: Kind, body: Json, name: str) -> None:
        request = AdmissionRequest(Operation.CREATE, kind, NAMESPACE, name, body, user=ADMINISTRATOR)
        self._chain.admit(request, self._reader)

    def _priority_of(self, name: str) -> int:
        found = self._reader.get(catalog.PRIORITYCLASS, "", name)
        return int(found.get("value", 0)) if found is not None else 0


def _pod(body: dict[str, Any]) -> Pod:
    """Return a new pod as it is read; what only its number tells is left to who names it."""
    pod = msgspec.convert(body, Pod)
    return replace(pod, status=replace(pod.status, phase="Pending"))


def _key(job: TraceJob) -> Hashable:
    """Return what tells templates apart: all that a manifest holds, but for the name and the run time."""
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
