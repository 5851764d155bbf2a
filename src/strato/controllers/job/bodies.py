"""Bodies of PodGroups and pods of jobs with equal specs: they differ in a few values, so a template is filled in.

A template replaces the plain build (`groups.build_group`, `PodBuilder`), against which `template_of` checks it when it
makes it; its key holds everything else that the body depends on. Pods of jobs with plugins, claims or partitions differ
in more values, so `built_pods` builds each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from strato.api.templates import Template, template_of
from strato.api.volcano.batch import Job
from strato.controllers.job import group as groups
from strato.controllers.job import terms
from strato.controllers.job.compiledspec import DesiredGroup
from strato.controllers.job.podbuilder import COPIED, PodBuilder, chosen, templates_in
from strato.lru import LruCache

_KEPT_BYTES: Final = 4 << 20
_KEY_BYTES: Final = 2_000
"""About how many bytes a template's key takes; most of them are the job's spec."""
_encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode


class PodBody(NamedTuple):
    """A pod to create."""

    name: str
    number: int
    partition: str
    body: bytes


class Bodies:
    """The most recently used templates."""

    def __init__(self) -> None:
        self._templates: LruCache[Hashable, Template] = LruCache(_KEPT_BYTES, _size)

    def group(self, job: Job, wanted: DesiredGroup) -> bytes:
        """Return the PodGroup of a job."""

        def build(values: Sequence[str]) -> bytes:
            return _encode(groups.build_group(_named(job, *values), wanted.raw))

        meta = job.metadata
        values = meta.name, meta.uid
        if meta.annotations:  # rarely equal between jobs, so a template would not be used again
            return build(values)
        key = wanted, meta.namespace, tuple(meta.labels.items()) if meta.labels else ()
        template = self._template(key, ("name", "uid"), build)
        return template.fill([value.encode() for value in values]) if template is not None else build(values)

    def pods(self, job: Job, position: int, spec: bytes, indexes: Sequence[int]) -> Iterator[PodBody]:
        """Yield pods of one task; only for jobs whose pods have no plugins, claims or partitions (`has_common_pods`).

        Args:
            job: The job.
            position: Index of the task in ``spec.tasks``.
            spec: The job's spec as JSON, as it was read.
            indexes: Indexes of the replicas.
        """
        task, meta, status = job.spec.tasks[position], job.metadata, job.status

        def build(values: Sequence[str]) -> bytes:
            one = _named(job, *values[:2])
            template = templates_in(spec)[position]
            builder = PodBuilder(one, task, template, group=groups.group_name(one))
            return _encode(builder.common_pod(values[2], status.version, status.retry_count))

        copied = tuple(chosen(meta.labels, COPIED).items()), tuple(chosen(meta.annotations, COPIED).items())
        key = spec, position, meta.namespace, copied, status.version, status.retry_count
        template = self._template(key, ("name", "uid", "index"), build)
        if template is None:
            group = groups.group_name(job)
            yield from built_pods(PodBuilder(job, task, templates_in(spec)[position], group=group), job, indexes)
            return
        name, uid, prefix = meta.name.encode(), meta.uid.encode(), f"{meta.name}-{task.name}-"
        for index in indexes:
            text = str(index)
            yield PodBody(prefix + text, index, "", template.fill((name, uid, text.encode())))

    def _template(
        self, key: Hashable, names: Sequence[str], build: Callable[[Sequence[str]], bytes]
    ) -> Template | None:
        template = self._templates.get(key)
        if template is None:
            template = template_of(names, build)
            if template is not None:
                self._templates.put(key, template)
        return template


def _size(key: Hashable, template: Template) -> int:
    return _KEY_BYTES + sum(map(len, template.pieces))


def built_pods(builder: PodBuilder, job: Job, indexes: Sequence[int]) -> Iterator[PodBody]:
    """Yield pods as their builder builds them."""
    for index in indexes:
        pod = builder.pod(index, job.status.version, job.status.retry_count)
        meta = pod["metadata"]
        yield PodBody(meta["name"], index, meta["labels"].get(terms.PARTITION_ID, ""), _encode(pod))


def _named(job: Job, name: str, uid: str) -> Job:
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, name=name, uid=uid))
