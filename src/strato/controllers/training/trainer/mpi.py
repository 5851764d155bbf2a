"""MPI: the launcher reads a list of hosts and starts ranks on them by ssh (spec training K, I2). Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from strato.api import catalog, trainer
from strato.api.meta import Json
from strato.api.trainer import MPIPolicy, TrainJob
from strato.controllers.sshkeys import key_pair
from strato.controllers.training.record import Companion
from strato.controllers.training.trainer.merging import with_variables
from strato.controllers.training.trainer.steps import BadRuntime, ReplicatedJobTemplate, Steps, upsert

_PRIVATE: Final = "ssh-privatekey"
_PUBLIC: Final = "ssh-publickey"
_PUBLIC_FILES: Final = ("id_rsa.pub", "authorized_keys")
_ROOTS: Final = "/root/.ssh"
_KEYS: Final = "mpi-ssh-auth"
_HOSTS: Final = "mpi-hostfile"
_FOLDER: Final = "/etc/mpi"
_HOSTFILE: Final = "hostfile"


def inform(steps: Steps, job: TrainJob, policy: MPIPolicy, slots: int) -> None:
    """Mount the ssh keys in nodes and launcher, and the list of hosts in the launcher, in place.

    Raises:
        BadRuntime: The MPI implementation is not Open MPI.
    """
    if policy.mpi_implementation not in ("", "OpenMPI"):
        raise BadRuntime(f"mlPolicy.mpi.mpiImplementation {policy.mpi_implementation!r} is not run here: use OpenMPI")
    for step in steps.steps:
        if step.name not in (trainer.NODE, trainer.LAUNCHER):
            continue
        # ssh refuses a key that its own user owns and others may read; a user other than root reads the key, which
        # root owns, as a member of the pod's group
        mode = 0o600 if policy.ssh_auth_mount_path == _ROOTS else 0o640
        items = [
            {"key": _PRIVATE, "path": "id_rsa", "mode": mode},
            *({"key": _PUBLIC, "path": path, "mode": 0o644} for path in _PUBLIC_FILES),
        ]
        secret = {"secretName": _keys_name(job), "defaultMode": 0o400, "items": items}
        upsert(step.pod, "volumes", [{"name": _KEYS, "secret": secret}])
        for container in step.containers(trainer.NODE):
            upsert(container, "volumeMounts", [{"name": _KEYS, "mountPath": policy.ssh_auth_mount_path}], "mountPath")
        if step.name == trainer.LAUNCHER:
            _launch(step, job, slots)


def _launch(step: ReplicatedJobTemplate, job: TrainJob, slots: int) -> None:
    items = [{"key": _HOSTFILE, "path": _HOSTFILE, "mode": 0o444}]
    upsert(step.pod, "volumes", [{"name": _HOSTS, "configMap": {"name": _hosts_name(job), "items": items}}])
    variables = {
        "OMPI_MCA_orte_default_hostfile": f"{_FOLDER}/{_HOSTFILE}",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }
    for container in step.containers(trainer.NODE):
        upsert(container, "volumeMounts", [{"name": _HOSTS, "mountPath": _FOLDER}], "mountPath")
        listed = [{"name": name, "value": value} for name, value in variables.items()]
        container["env"] = with_variables(container.get("env"), listed)


def companions(steps: Steps, job: TrainJob, policy: MPIPolicy, slots: int) -> Sequence[Companion]:
    """Return the Secret of the ssh keys and the ConfigMap of the list of hosts."""
    config: Json = {"metadata": {"name": _hosts_name(job)}, "data": {_HOSTFILE: hostfile(steps, job, policy, slots)}}
    secret: Json = {"metadata": {"name": _keys_name(job)}, "type": "kubernetes.io/ssh-auth", "immutable": True}
    return (
        Companion(kind=catalog.SECRET, body=secret, made_once=_new_keys),
        Companion(kind=catalog.CONFIGMAP, body=config, member="data"),
    )


def hostfile(steps: Steps, job: TrainJob, policy: MPIPolicy, slots: int) -> str:
    """Return the list of hosts, in the order of the steps."""
    lines = []
    for step in steps.steps:
        if step.name == trainer.NODE or (step.name == trainer.LAUNCHER and policy.run_launcher_as_node):
            for replica in range(step.replicas):
                for index in range(step.pods):
                    host = f"{job.metadata.name}-{step.name}-{replica}-{index}.{steps.subdomain}"
                    lines.append(f"{host} slots={slots}\n")
    return "".join(lines)


def _new_keys() -> Json:
    private, public = key_pair(ec.generate_private_key(ec.SECP521R1()))
    values = {_PRIVATE: private, _PUBLIC: public}
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}}


def _keys_name(job: TrainJob) -> str:
    return f"{job.metadata.name}-mpi-ssh-auth"


def _hosts_name(job: TrainJob) -> str:
    return f"{job.metadata.name}-mpi-hostfile"
