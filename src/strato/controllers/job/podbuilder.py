"""Pods of one task: what all replicas share is built once, and each replica costs a few shallow copies.

The pods of a task differ in their names, indexes and what plugins add to each. A `PodBuilder` keeps the task's finished
body, and `pod` copies only the members that it changes. The bodies that it returns share the rest: send them, but do
not edit them in place.

Source: volcano-controllers A8, volcano-api 14.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from strato.api.volcano.batch import Job, TaskSpec
from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.controllers.job import terms
from strato.controllers.job.plugins.base import JobPlugin
from strato.controllers.owners import controller_reference

_NAME_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_COPIED_ANNOTATIONS = (terms.PREEMPTABLE, terms.COOLDOWN_TIME, terms.REVOCABLE_ZONE)
_COPIED_LABELS = (terms.PREEMPTABLE, terms.COOLDOWN_TIME)
_BUDGETS = (terms.JDB_MIN_AVAILABLE, terms.JDB_MAX_UNAVAILABLE)
COPIED = (*_COPIED_ANNOTATIONS, *_BUDGETS)
"""Labels and annotations of a job that its pods depend on."""


def random_suffix(random: Random) -> str:
    """Return twelve random letters and digits, as names of claims and volumes end."""
    return "".join(random.choices(_NAME_LETTERS, k=12))


class PodBuilder:
    """The pods of one task of one job.

    Args:
        job: The job.
        task: The task.
        template: The task's pod template as JSON; taken over, not copied.
        group: Name of the PodGroup its pods join.
        plugins: What shapes the pods further, in order.
        random: Names volumes, of jobs that have some.
        forwarded: The queue forwards jobs to other clusters.
    """

    def __init__(
        self,
        job: Job,
        task: TaskSpec,
        template: dict[str, Any],
        *,
        group: str,
        plugins: Sequence[JobPlugin] = (),
        random: Random | None = None,
        forwarded: bool = False,
    ) -> None:
        self._job = job
        self._task = task
        self.name = task.name
        self._prefix = f"{job.metadata.name}-{self.name}-"
        policy = task.partition_policy
        self._partition_size = None if policy is None else policy.partition_size
        metadata = template.get("metadata") or {}
        self._labels = {**(metadata.get("labels") or {}), **self._common_labels(forwarded)}
        self._annotations = {**(metadata.get("annotations") or {}), **self._common_annotations(group, forwarded)}
        self._metadata: dict[str, Any] = {
            "namespace": job.metadata.namespace,
            "ownerReferences": [controller_reference(terms.JOB_API_VERSION, terms.JOB_KIND, job.metadata)],
        }
        if metadata.get("finalizers"):
            self._metadata["finalizers"] = metadata["finalizers"]
        self._spec: dict[str, Any] = template.get("spec") or {}
        self._finish_spec(self._spec, random)
        body = {"metadata": {"labels": self._labels, "annotations": self._annotations}, "spec": self._spec}
        for plugin in plugins:
            plugin.shape(job, task, body)
        self._per_pod = [plugin for plugin in plugins if plugin.varies]

    def pod(self, index: int, version: int, retry_count: int) -> dict[str, Any]:
        """Return the body of one replica."""
        pod = self.common_pod(str(index), version, retry_count)
        meta = pod["metadata"]
        if self._partition_size is not None:
            meta["labels"][terms.PARTITION_ID] = str(index // self._partition_size if self._partition_size > 0 else 0)
        for plugin in self._per_pod:
            plugin.on_pod_create(self._job, self._task, meta["name"], index, pod)
        return pod

    def common_pod(self, text: str, version: int, retry_count: int) -> dict[str, Any]:
        """Return the body of a replica, its index given as text, before partitions and plugins change it."""
        labels = {**self._labels, terms.TASK_INDEX: text}
        annotations = {
            **self._annotations,
            terms.TASK_INDEX: text,
            terms.JOB_VERSION: str(version),
            terms.JOB_RETRY_COUNT: str(retry_count),
        }
        name = f"{self._prefix}{text}"
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**self._metadata, "name": name, "labels": labels, "annotations": annotations},
            "spec": dict(self._spec),
        }

    def _common_labels(self, forwarded: bool) -> dict[str, str]:
        job = self._job.metadata
        labels = {
            terms.TASK_SPEC: self.name,
            terms.JOB_NAME: job.name,
            terms.JOB_NAMESPACE: job.namespace,
            terms.QUEUE_NAME: self._job.spec.queue,
        }
        labels.update(chosen(job.labels, _COPIED_LABELS))
        if forwarded:
            labels[terms.JOB_FORWARDING] = "true"
        return labels

    def _common_annotations(self, group: str, forwarded: bool) -> dict[str, str]:
        job = self._job.metadata
        annotations = {
            terms.TASK_SPEC: self.name,
            terms.JOB_NAME: job.name,
            terms.QUEUE_NAME: self._job.spec.queue,
            terms.TEMPLATE_UID: f"{job.name}-{self._task.name}",
            GROUP_ANNOTATION: group,
        }
        annotations.update(chosen(job.annotations, _COPIED_ANNOTATIONS))
        for budget in _BUDGETS:
            if value := job.annotation(budget):
                annotations[budget] = value
                break
        if self._task.topology_policy:
            annotations[terms.NUMA_POLICY] = self._task.topology_policy
        if forwarded:
            annotations[terms.JOB_FORWARDING] = "true"
        return annotations

    def _finish_spec(self, spec: dict[str, Any], random: Random | None) -> None:
        job = self._job.spec
        if not spec.get("schedulerName") and job.scheduler_name:
            spec["schedulerName"] = job.scheduler_name
        if not spec.get("priorityClassName") and job.priority_class_name:
            spec["priorityClassName"] = job.priority_class_name
        if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        mounted: set[str] = set()
        for volume in job.volumes:
            claim = volume.volume_claim_name
            if not claim or claim in mounted:  # a further volume with the same claim is ignored, with its mount path
                continue
            mounted.add(claim)
            assert random is not None, "a job has volumes"
            name = f"{self._job.metadata.name}-{random_suffix(random)}"
            spec["volumes"] = [
                *(spec.get("volumes") or ()),
                {"name": name, "persistentVolumeClaim": {"claimName": claim}},
            ]
            for container in spec.get("containers") or ():
                container["volumeMounts"] = [
                    *(container.get("volumeMounts") or ()),
                    {"name": name, "mountPath": volume.mount_path},
                ]


def templates_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pod templates of a job read as JSON, one per task in order; builders change them."""
    return [task.get("template") or {} for task in job["spec"].get("tasks") or ()]


def templates_in(spec: bytes) -> list[dict[str, Any]]:
    """Return the same as `templates_of` from a job's spec as JSON text; decodes nothing but the templates."""
    return [task.template or {} for task in _read_spec(spec).tasks or ()]


class _Task(msgspec.Struct, gc=False):
    template: dict[str, Any] | None = None


class _Spec(msgspec.Struct, gc=False):
    tasks: list[_Task] | None = None


_read_spec = msgspec.json.Decoder(_Spec).decode


def chosen(source: Mapping[str, str] | None, keys: Sequence[str]) -> dict[str, str]:
    """Return the entries that have one of the keys."""
    return {key: source[key] for key in keys if key in source} if source else {}
