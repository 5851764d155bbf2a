"""Plans that create and delete the pods of a job; they put the answers into its record at once.

Every plan is idempotent: a pod of the job that exists already is used, and deleting an absent pod succeeds.

Source: volcano-controllers A6.3, A6.4, A7.7, A7.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import Any

from strato.api import catalog
from strato.api.core import Pod
from strato.api.volcano.batch import Job, TaskSpec
from strato.client.cluster import Created
from strato.client.codec import codec_of
from strato.client.informer import Informer
from strato.controllers.job import group as groups
from strato.controllers.job import terms
from strato.controllers.job.bodies import Bodies, PodBody, built_pods
from strato.controllers.job.calls import Create, Delete, Get, Plan, Set, ask
from strato.controllers.job.objects import JobError
from strato.controllers.job.podbuilder import PodBuilder, templates_in, templates_of
from strato.controllers.job.pods import PodState
from strato.controllers.job.record import JobRecord
from strato.errors import AlreadyExists, Conflict, NotFound

_BATCH_SIZE = 512
"""Most pods created in one round; bounds memory, as each body takes some kilobytes."""


class NameTaken(JobError):
    """A pod that does not belong to the job has the name of one of its pods."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace, self.name = namespace, name
        super().__init__(f"pod {namespace}/{name} exists but does not belong to the job; delete it or rename the job")


class Replicas:
    """See the module.

    Args:
        random: Generates the names of volumes.
        jobs: The informer of jobs; its codec mostly still has the bytes from which a job's spec was decoded.
        bodies: Templates of pods.
    """

    def __init__(self, random: Random, jobs: Informer[Job], bodies: Bodies) -> None:
        self._random = random
        self._jobs = jobs
        self._bodies = bodies
        self._codec = codec_of(Job)

    def create(
        self, record: JobRecord, missing: Sequence[tuple[TaskSpec, list[int]]], group: str, *, forwarded: bool
    ) -> Plan[list[Exception]]:
        """Create replicas; returns the failures. A pod of the job that exists already is used.

        Raises:
            JobError: The job has changed meanwhile; the watch will show its new state.
        """
        job = record.job
        assert job is not None
        spec = self._written_spec(job)
        uses_template = (
            spec is not None and record.compiled.has_common_pods and not forwarded and group == groups.group_name(job)
        )
        if not uses_template and record.builders is None:
            templates = templates_in(spec) if spec is not None else (yield from _read_templates(job))
            record.builders = {
                task.name: PodBuilder(
                    job,
                    task,
                    template,
                    group=group,
                    plugins=record.plugins.active,
                    random=self._random,
                    forwarded=forwarded,
                )
                for task, template in zip(job.spec.tasks, templates, strict=True)
            }
        failures: list[Exception] = []
        for task, indexes in missing:
            name = task.name
            bodies: Iterable[PodBody]
            if record.builders is not None:
                bodies = built_pods(record.builders[name], job, indexes)
            else:
                assert spec is not None
                bodies = self._bodies.pods(job, job.spec.tasks.index(task), spec, indexes)
            failures += yield from _create(record, job, name, iter(bodies))
        record.builders = None  # frees the templates; the next creates make new builders
        return failures

    def _written_spec(self, job: Job) -> bytes | None:
        meta = job.metadata
        known = self._jobs.get((meta.namespace, meta.name))
        if known is None or known.metadata.uid != meta.uid or known.metadata.generation != meta.generation:
            return None
        return self._codec.written_spec(known.spec)


def _read_templates(job: Job) -> Plan[list[dict[str, Any]]]:
    meta = job.metadata
    whole = yield from ask(Get(catalog.VCJOB, meta.namespace, meta.name))
    if whole["metadata"]["uid"] != meta.uid or whole["metadata"].get("generation", 0) != meta.generation:
        raise JobError(f"job {meta.key} changed while its pods were prepared")
    return templates_of(whole)


def _create(record: JobRecord, job: Job, task: str, bodies: Any) -> Plan[list[Exception]]:
    meta, failures, taken = job.metadata, [], []
    incarnation = meta.uid, job.status.version

    def note(pod: PodBody, answer: Created | Exception) -> None:
        is_ours = record.job is not None and record.job.metadata.uid == meta.uid
        if is_ours and not isinstance(answer, Exception) and not record.has_pod(task, pod.name, answer.uid):
            record.assume_pod(PodState.created(answer, pod.name, task, pod.number, incarnation, pod.partition))

    while some := list(islice(bodies, _BATCH_SIZE)):
        answers = yield [Create(catalog.POD, meta.namespace, pod.body, partial(note, pod)) for pod in some]
        for pod, answer in zip(some, answers, strict=True):
            if isinstance(answer, AlreadyExists):
                taken.append(pod.name)
            elif isinstance(answer, Exception):
                failures.append(answer)
    if taken:
        for name, pod in zip(taken, (yield [Get(Pod, meta.namespace, name) for name in taken]), strict=True):
            state = None if isinstance(pod, Exception) else PodState.from_view(pod)
            if isinstance(pod, Exception):
                failures.append(pod)
            elif state is None or pod.metadata.annotation(terms.JOB_NAME) != record.key.name:
                failures.append(NameTaken(meta.namespace, name))
            else:
                record.put_pod(state)
    return failures


def delete_pods(record: JobRecord, pods: Sequence[PodState]) -> Plan[list[Exception]]:
    """Delete pods; returns the failures."""
    namespace = record.key.namespace
    answers = yield [Delete(Pod, namespace, pod.name, pod.uid) for pod in pods]
    done, failures = yield from _sort_results(record, pods, answers)
    for pod in done:
        record.mark_pod(pod, terminating=True)
    return failures


def kill_pods(record: JobRecord, pods: Sequence[PodState]) -> Plan[list[Exception]]:
    """Mark pods out-of-sync, so that no policy answers their end, then delete those that could be marked."""
    namespace = record.key.namespace
    unmarked = [pod for pod in pods if not pod.out_of_sync]
    rest = [pod for pod in pods if pod.out_of_sync]
    mark = {terms.OUT_OF_SYNC: "true"}
    answers = yield [
        Set(catalog.POD, namespace, pod.name, {"metadata": {"uid": pod.uid, "annotations": mark}}) for pod in unmarked
    ]
    marked, failures = yield from _sort_results(record, unmarked, answers)
    for pod in marked:
        record.mark_pod(pod, out_of_sync=True)
    return failures + (yield from delete_pods(record, [*rest, *marked]))


def _sort_results(
    record: JobRecord, pods: Sequence[PodState], answers: Sequence[Any]
) -> Plan[tuple[list[PodState], list[Exception]]]:
    """Return the pods that were written, and the failures; drops pods that no longer exist from the record.

    A Conflict has two causes, told apart by reading the pod: another pod has the name by now, and ours is gone; or
    somebody else wrote the pod at the same time, and the write has failed.
    """
    done, failures, unsure = [], [], []
    for pod, answer in zip(pods, answers, strict=True):
        if isinstance(answer, NotFound):
            record.drop_pod(pod.task, pod.name, pod.uid)
        elif isinstance(answer, Conflict):
            unsure.append((pod, answer))
        elif isinstance(answer, Exception):
            failures.append(answer)
        else:
            done.append(pod)
    if unsure:
        found = yield [Get(Pod, record.key.namespace, pod.name) for pod, _ in unsure]
        for (pod, conflict), present in zip(unsure, found, strict=True):
            if isinstance(present, NotFound) or (isinstance(present, Pod) and present.metadata.uid != pod.uid):
                record.drop_pod(pod.task, pod.name, pod.uid)
            else:
                failures.append(present if isinstance(present, Exception) else conflict)
    return done, failures
