"""MPI jobs of kubeflow.org/v2beta1: ranks are started by ssh from the pod of a Job (spec training I2)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from strato.api import catalog, mpioperator
from strato.api.core import Pod
from strato.api.frameworks import LAUNCHER, WORKER, JobShape
from strato.api.meta import Json, ObjectMeta
from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.controllers.kube.ownedpods import pod_body
from strato.controllers.owners import controller_reference
from strato.controllers.sshkeys import key_pair
from strato.controllers.training import labels
from strato.controllers.training.mpi import hosts
from strato.controllers.training.record import Companion, Replica
from strato.controllers.trainingoptions import PodOptions

_PRIVATE: Final = "ssh-privatekey"
_PUBLIC: Final = "ssh-publickey"
_FILES: Final = ((_PRIVATE, "id_rsa"), (_PUBLIC, "id_rsa.pub"), (_PUBLIC, "authorized_keys"))
_VOLUME: Final = "ssh-auth"
_ROOT_MODE: Final = 0o600
_SERVER: Final = ["/usr/sbin/sshd", "-De"]
_SSH_OPTIONS: Final = "-o ConnectionAttempts=10"
_HOSTFILE: Final = f"{hosts.FOLDER}/{hosts.HOSTFILE}"


def companions(shape: JobShape, pods: Sequence[Pod], options: PodOptions) -> Sequence[Companion]:
    """Return the service for the pods' names, the lists of hosts, and the ssh keys."""
    labelled = {"app": shape.name}
    service = {
        "metadata": {"name": shape.name, "labels": labelled},
        "spec": {
            "clusterIP": "None",
            "selector": labels.of_job(shape),
            # a launcher that runs ranks must be reachable by the workers before it is Ready
            "publishNotReadyAddresses": shape.spec.run_launcher_as_worker,
        },
    }
    data = {
        hosts.HOSTFILE: hosts.by_name(shape, options.cluster_domain),
        hosts.DISCOVERY: hosts.discovery_by_name(shape, pods, options.cluster_domain),
    }
    config = {"metadata": {"name": hosts.config_name(shape), "labels": labelled}, "data": data}
    secret = {"metadata": {"name": _secret_name(shape), "labels": labelled}, "type": "kubernetes.io/ssh-auth"}
    return (
        Companion(kind=catalog.SERVICE, body=service),
        Companion(kind=catalog.CONFIGMAP, body=config, member="data"),
        Companion(kind=catalog.SECRET, body=secret, made_once=_keys),
    )


def _keys() -> Json:
    """Return a new pair of keys."""
    private, public = key_pair(ec.generate_private_key(ec.SECP521R1()))
    values = {_PRIVATE: private, _PUBLIC: public}
    return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}}


def _secret_name(shape: JobShape) -> str:
    return f"{shape.name}-ssh"


@dataclass(frozen=True, slots=True)
class SshPods:
    """Makes workers and the Job of the launcher."""

    options: PodOptions

    def pod(self, shape: JobShape, owner: ObjectMeta, template: Mapping[str, Any], replica: Replica) -> Json:
        """Return a worker; the template is not changed."""
        name = shape.object_name(WORKER, replica.index)
        # a launcher that runs ranks has index 0, so the workers begin at 1
        number = replica.index + shape.spec.run_launcher_as_worker
        body = pod_body(
            shape.framework.kind,
            owner,
            template,
            labels={**_labels(shape, "worker"), labels.REPLICA_INDEX: str(number)},
            annotations=self._annotations(shape),
            name=name,
        )
        body["spec"] = spec = self._spec(shape, WORKER, name, body["spec"])
        # workers of Intel MPI and MPICH connect to the launcher by its short name
        domain = self.options.cluster_domain or "cluster.local"
        dns = dict(spec.get("dnsConfig") or {})
        dns["searches"] = [*(dns.get("searches") or ()), f"{shape.name}.{shape.namespace}.svc.{domain}"]
        spec["dnsConfig"] = dns
        first = spec["containers"][0]
        if not first.get("command") and not first.get("args"):
            first["command"] = _SERVER
        return body

    def launcher(self, shape: JobShape, owner: ObjectMeta, template: Mapping[str, Any], *, suspended: bool) -> Json:
        """Return the Job of the launcher; it enforces the limits of the run policy."""
        kind, policy, name = shape.framework.kind, shape.spec.run_policy, shape.object_name(LAUNCHER, 0)
        limits = {
            "ttlSecondsAfterFinished": policy.ttl_seconds_after_finished,
            "activeDeadlineSeconds": policy.active_deadline_seconds,
            "backoffLimit": policy.backoff_limit,
        }
        return {
            "apiVersion": catalog.JOB.api_version,
            "kind": catalog.JOB.name,
            "metadata": {
                "name": name,
                "namespace": shape.namespace,
                "labels": {"app": shape.name},
                "ownerReferences": [controller_reference(kind.api_version, kind.name, owner)],
            },
            "spec": {
                **{member: value for member, value in limits.items() if value is not None},
                # a terminating launcher must have ended before another one starts
                "podReplacementPolicy": "Failed",
                **({"suspend": True} if suspended else {}),
                "template": self._launcher_template(shape, template),
            },
        }

    def _launcher_template(self, shape: JobShape, template: Mapping[str, Any]) -> Json:
        meta = template.get("metadata") or {}
        index = {labels.REPLICA_INDEX: "0"} if shape.spec.run_launcher_as_worker else {}
        spec = self._spec(shape, LAUNCHER, shape.object_name(LAUNCHER, 0), dict(template.get("spec") or {}))
        first = spec["containers"][0]
        first["env"] += [{"name": name, "value": value} for name, value in _variables(shape).items()]
        first["volumeMounts"].append({"name": hosts.VOLUME, "mountPath": hosts.FOLDER})
        modes = [(hosts.HOSTFILE, hosts.TEXT_MODE), (hosts.DISCOVERY, hosts.SCRIPT_MODE)]
        spec["volumes"].append(hosts.config_volume(shape, modes))
        return {
            "metadata": {
                "labels": {**(meta.get("labels") or {}), **_labels(shape, "launcher"), **index},
                "annotations": {**(meta.get("annotations") or {}), **self._annotations(shape)},
            },
            "spec": spec,
        }

    def _annotations(self, shape: JobShape) -> dict[str, str]:
        return {GROUP_ANNOTATION: shape.name} if self.options.scheduler else {}

    def _spec(self, shape: JobShape, role: str, name: str, given: Json) -> Json:
        """Return the spec of a pod with its host name and its ssh keys."""
        spec = {**given, "hostname": name, "subdomain": shape.name, "restartPolicy": shape.restart_policy(role)}
        if spec.get("hostNetwork"):
            spec["dnsPolicy"] = "ClusterFirstWithHostNet"
        if self.options.scheduler:
            spec["schedulerName"] = self.options.scheduler
        path = shape.spec.ssh_auth_mount_path
        items = [{"key": key, "path": file} for key, file in _FILES]
        mode = {"defaultMode": _ROOT_MODE} if path == mpioperator.SSH_PATH else {}
        volume = {"name": _VOLUME, "secret": {"secretName": _secret_name(shape), "items": items, **mode}}
        spec["volumes"] = [*(spec.get("volumes") or ()), volume]
        first, *others = spec["containers"]
        spec["containers"] = [
            {
                **first,
                "env": [*(first.get("env") or ()), {"name": "K_MPI_JOB_ROLE", "value": role.lower()}],
                "volumeMounts": [*(first.get("volumeMounts") or ()), {"name": _VOLUME, "mountPath": path}],
            },
            *others,
        ]
        return spec


def _labels(shape: JobShape, role: str) -> dict[str, str]:
    return {**labels.of_job(shape), labels.JOB_ROLE: role}


def _variables(shape: JobShape) -> dict[str, str]:
    """Return the variables that the MPI implementation of the launcher reads."""
    match shape.spec.mpi_implementation:
        case mpioperator.INTEL:
            found = {
                "I_MPI_HYDRA_HOST_FILE": _HOSTFILE,
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _SSH_OPTIONS,
                "I_MPI_PERHOST": str(shape.slots),
            }
        case mpioperator.MPICH:
            found = {"HYDRA_HOST_FILE": _HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": _SSH_OPTIONS}
        case _:
            found = {
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": _HOSTFILE,
                "OMPI_MCA_plm_rsh_args": _SSH_OPTIONS,
                "OMPI_MCA_orte_set_default_slots": str(shape.slots),
            }
    if not shape.spec.run_launcher_as_worker:  # a launcher without ranks must not use the GPUs of its node
        found |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return found
