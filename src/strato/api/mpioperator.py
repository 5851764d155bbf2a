"""kubeflow.org/v2beta1, the API of Kubeflow's MPI operator: its view and defaults (spec training I2).

Its MPIJob has the fields of v1 and further ones: one definition serves both versions, and an object stays one of the
version in which it was created.
"""

from __future__ import annotations

from typing import Final

from strato.api import kubeflow
from strato.api.meta import Json

SSH_PATH: Final = "/root/.ssh"
OPEN_MPI: Final = "OpenMPI"
INTEL: Final = "Intel"
MPICH: Final = "MPICH"
IMPLEMENTATIONS: Final = (INTEL, MPICH, OPEN_MPI)
AT_STARTUP: Final = "AtStartup"
WHEN_READY: Final = "WaitForWorkersReady"
CREATION_POLICIES: Final = (AT_STARTUP, WHEN_READY)


class MPIJob(kubeflow.MPIJob, frozen=True, kw_only=True):
    """An MPI job whose launcher is a Job and starts ranks by ssh."""


def with_defaults(spec: Json) -> Json:
    """Return ``spec`` with the operator's defaults; members that the user has set stay."""
    filled = _filled(
        spec,
        slotsPerWorker=1,
        sshAuthMountPath=SSH_PATH,
        mpiImplementation=OPEN_MPI,
        launcherCreationPolicy=AT_STARTUP,
    )
    filled["runPolicy"] = _filled(spec.get("runPolicy") or {}, cleanPodPolicy="None")
    roles = dict(spec.get("mpiReplicaSpecs") or {})
    for role, replicas, policy in (("Launcher", 1, "OnFailure"), ("Worker", 0, "Never")):
        if roles.get(role) is not None:
            roles[role] = _filled(roles[role], replicas=replicas, restartPolicy=policy)
    return {**filled, "mpiReplicaSpecs": roles} if roles else filled


def _filled(given: Json, **defaults: object) -> Json:
    return {**defaults, **{name: value for name, value in given.items() if value not in (None, "")}}
