"""PodGroups and pods of jobs alike, as bytes into which names are put.

Of two jobs with one spec the bodies differ by the job's name and uid only, which stand in them as they are: both are
letters, digits, dashes and dots. The body of a job that has words in brackets for them is the mould of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from strato.api.volcano.batch import Job
from strato.controllers.job import group as groups
from strato.controllers.job.blueprint import Blueprint
from strato.controllers.job.form import KEPT_FORMS, WantedGroup

_NAME: Final = "<name>"
_UID: Final = "<uid>"
_encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode


class PodBody(NamedTuple):
    """A pod to create."""

    task: str
    number: int
    name: str
    body: bytes


class _Cast:
    """Body of an object of one job, for others that are alike."""

    __slots__ = ("_raw",)

    def __init__(self, job: Job, build: Callable[[Job], dict[str, Any]]) -> None:
        def built(name: str, uid: str) -> bytes:
            metadata = msgspec.structs.replace(job.metadata, name=name, uid=uid)
            return _encode(build(msgspec.structs.replace(job, metadata=metadata)))

        self._raw = built(_NAME, _UID)
        if self._put("name", "uid") != built("name", "uid"):
            self._raw = b""  # one of the words stands in the spec

    def of(self, job: Job) -> bytes:
        """Return the body of a job's object; empty when it cannot be cast."""
        return self._put(job.metadata.name, job.metadata.uid)

    def _put(self, name: str, uid: str) -> bytes:
        return self._raw.replace(_NAME.encode(), name.encode()).replace(_UID.encode(), uid.encode())


class Moulds:
    """The moulds made lately; only jobs without annotations, which are seldom alike, share them."""

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], _Cast] = {}
        self._pods: dict[tuple[object, ...], list[tuple[str, int, _Cast]]] = {}

    def group(self, job: Job, wanted: WantedGroup) -> bytes:
        """Return the PodGroup of a job."""

        def build(job: Job) -> dict[str, Any]:
            return groups.build_group(job, wanted.raw)

        meta = job.metadata
        if meta.annotations:
            return _encode(build(job))
        key = wanted, meta.namespace, tuple(meta.labels.items()) if meta.labels else ()
        cast = self._groups.get(key)
        if cast is None:
            cast = self._groups[key] = _Cast(job, build)
            _trim(self._groups)
        return cast.of(job) or _encode(build(job))

    def pods(self, job: Job, group: str, spec: bytes, templates: Sequence[dict[str, Any]]) -> list[PodBody]:
        """Return all pods of a job.

        Args:
            job: The job.
            group: Name of its PodGroup.
            spec: The bytes its spec came in.
            templates: Finished templates, made of those.
        """
        meta, status = job.metadata, job.status
        if meta.annotations or group != groups.group_name(job):
            return self._one_by_one(job, group, templates)
        labels = tuple(meta.labels.items()) if meta.labels else ()
        key = spec, meta.namespace, labels, status.version, status.retry_count
        casts = self._pods.get(key)
        if casts is None:
            casts = self._pods[key] = _casts(job, templates)
            _trim(self._pods)
        name = meta.name
        bodies = [PodBody(task, index, f"{name}-{task}-{index}", cast.of(job)) for task, index, cast in casts]
        return bodies if all(one.body for one in bodies) else self._one_by_one(job, group, templates)

    def _one_by_one(self, job: Job, group: str, templates: Sequence[dict[str, Any]]) -> list[PodBody]:
        bodies = []
        for task, template in zip(job.spec.tasks, templates, strict=True):
            blueprint = Blueprint(job, task, template, group=group)
            for index in range(task.replicas):
                body = blueprint.pod(index, job.status.version, job.status.retry_count)
                bodies.append(PodBody(blueprint.name, index, body["metadata"]["name"], _encode(body)))
        return bodies


def _casts(job: Job, templates: Sequence[dict[str, Any]]) -> list[tuple[str, int, _Cast]]:
    casts = []
    for task, template in zip(job.spec.tasks, templates, strict=True):
        for index in range(task.replicas):

            def build(job: Job, task: Any = task, template: Any = template, index: int = index) -> dict[str, Any]:
                blueprint = Blueprint(job, task, template, group=groups.group_name(job))
                return blueprint.pod(index, job.status.version, job.status.retry_count)

            casts.append((task.name, index, _Cast(job, build)))
    return casts


def _trim(known: dict[Any, Any]) -> None:
    if len(known) > KEPT_FORMS:
        del known[next(iter(known))]
