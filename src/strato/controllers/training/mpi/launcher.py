"""The Jobs that launch MPI jobs: finds them in the cache; creates, suspends and resumes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from strato.api import catalog
from strato.api.batch import Job
from strato.api.core import Pod
from strato.api.frameworks import LAUNCHER, JobShape
from strato.api.meta import Json, Key, ObjectMeta
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.training import labels
from strato.controllers.training.companions import CompanionOfOthers
from strato.controllers.training.mpi.plan import ended
from strato.controllers.training.mpi.ssh import SshPods
from strato.controllers.training.record import LauncherPlan
from strato.errors import AlreadyExists, NotFound
from strato.metrics import Sample

_INDEX: Final = "mpi-launchers"
_OWNER: Final = (catalog.MPIJOB.api_version, catalog.MPIJOB.name)
_MAY_CHANGE: Final = ("nodeSelector", "tolerations", "schedulingGates")
"""Members of a pod template that a suspended Job may change."""


class Launchers:
    """See the module.

    Args:
        context: The context of all controllers.
        on_change: Called with the key of an MPI job whose launcher has changed.
    """

    def __init__(self, context: ControllerContext, on_change: Callable[[Key], None]) -> None:
        self._cluster, self._on_change = context.cluster, on_change
        self._renderer = SshPods(context.settings.training)
        self._jobs = context.informers.informer(Job)
        self._pods = context.informers.informer(Pod)
        self._gone: dict[str, Job] = {}
        """Last state of launchers that had ended when their time to live deleted them, by uid of the MPI job."""
        self._pods.add_index(_INDEX, _job_of)
        self._pods.add_handler(self._on_pod, among=_launching)
        self._jobs.add_owned_handler(catalog.MPIJOB, self._on_job)
        context.metrics.collect_gauges(self._information)

    def _information(self) -> Iterable[Sample]:
        for job in self._jobs.list():
            owner = job.metadata.controller
            if owner is not None and (owner.api_version, owner.kind) == _OWNER:
                names = {"launcher": job.metadata.name, "namespace": job.metadata.namespace}
                yield Sample("mpi_operator_job_info", names, 1.0)

    def _on_job(self, change: Change[Job]) -> None:
        owner = change.object.metadata.controller
        assert owner is not None, "handlers get owned Jobs only"
        if change.new is None and ended(change.object) is not None:
            self._gone[owner.uid] = change.object
        self._on_change(Key(change.key.namespace, owner.name))

    def _on_pod(self, change: Change[Pod]) -> None:
        self._on_change(Key(change.key.namespace, change.object.metadata.label(labels.JOB_NAME)))

    def forget(self, owner: str) -> None:
        """Forget the launcher of a deleted MPI job."""
        self._gone.pop(owner, None)

    def of(self, shape: JobShape, owner: ObjectMeta) -> tuple[Job | None, Sequence[Pod]]:
        """Return the launcher of an MPI job, and its pods.

        Raises:
            CompanionOfOthers: A Job of that name has another owner.
        """
        name = shape.object_name(LAUNCHER, 0)
        launcher = self._jobs.get(Key(shape.namespace, name))
        if launcher is None:
            return self._gone.get(owner.uid), ()
        holder = launcher.metadata.controller
        if holder is None or holder.uid != owner.uid:
            raise CompanionOfOthers(catalog.JOB, name, shape.framework.kind)
        found = self._pods.index(_INDEX, f"{shape.namespace}/{shape.name}")
        uid = launcher.metadata.uid
        return launcher, [
            pod for pod in found if pod.metadata.controller is not None and pod.metadata.controller.uid == uid
        ]

    async def apply(self, shape: JobShape, owner: ObjectMeta, template: Json, launch: LauncherPlan) -> None:
        """Create, suspend or resume a launcher."""
        name, namespace = shape.object_name(LAUNCHER, 0), shape.namespace
        body = self._renderer.launcher(shape, owner, template, suspended=launch is LauncherPlan.CREATE_SUSPENDED)
        try:
            if launch is LauncherPlan.SUSPEND:
                await self._cluster.patch(catalog.JOB, name, namespace, {"spec": {"suspend": True}})
            elif launch is LauncherPlan.RESUME:
                await self._cluster.patch(catalog.JOB, name, namespace, _resumed(body))
            else:
                await self._cluster.create(catalog.JOB, body, namespace)
        except (AlreadyExists, NotFound):
            return  # the watch will show the new Job


def _resumed(body: Json) -> Json:
    """Return the patch that resumes a Job, with the present scheduling members of its pod template."""
    template = body["spec"]["template"]
    spec: dict[str, Any] = {member: template["spec"].get(member) for member in _MAY_CHANGE}
    return {"spec": {"suspend": False, "template": {"metadata": template["metadata"], "spec": spec}}}


def _launching(changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
    return [change for change in changes if _job_of(change.object)]


def _job_of(pod: Pod) -> Sequence[str]:
    meta = pod.metadata
    if meta.label(labels.JOB_ROLE) != LAUNCHER.lower():
        return ()
    return (f"{meta.namespace}/{meta.label(labels.JOB_NAME)}",)
