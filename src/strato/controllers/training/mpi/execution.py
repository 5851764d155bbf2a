"""MPI jobs of kubeflow.org/v1: the launcher starts ranks by executing commands in workers (spec training I1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strato.api import catalog
from strato.api.core import Pod
from strato.api.frameworks import LAUNCHER, WORKER, JobShape
from strato.api.meta import Json
from strato.controllers.training.mpi import hosts
from strato.controllers.training.record import Companion
from strato.controllers.trainingoptions import PodOptions

_RBAC: Final = "rbac.authorization.k8s.io"
_KUBECTL_FOLDER: Final = "/opt/kube"
_KUBECTL_VOLUME: Final = "mpi-job-kubectl"
_AGENT: Final = "kubexec.sh"
_AGENT_PATH: Final = f"{hosts.FOLDER}/{_AGENT}"
_AGENT_TEXT: Final = (
    '#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n{folder}/kubectl exec ${{POD_NAME}}{container} -- /bin/sh -c "$*"'
)
_DELIVERY: Final = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_IDLE: Final = ["sleep", "365d"]


def companions(shape: JobShape, pods: Sequence[Pod], options: PodOptions) -> Sequence[Companion]:
    """Return the lists of hosts, and the Role that lets the launcher execute commands in its workers only."""
    name = shape.object_name(LAUNCHER, 0)
    metadata = {"name": name, "labels": {"app": shape.name}}
    container = f" --container {shape.spec.main_container}" if shape.spec.main_container else ""
    data = {
        hosts.HOSTFILE: hosts.by_pod(shape),
        hosts.DISCOVERY: hosts.discovery_by_pod(shape, pods),
        _AGENT: _AGENT_TEXT.format(folder=_KUBECTL_FOLDER, container=container),
    }
    account = _account(shape)
    # kubectl executes by WebSocket, a GET request (verb get), older versions by a POST (verb create)
    workers = [shape.object_name(WORKER, index) for index in range(shape.count(WORKER))]
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "resourceNames": workers, "verbs": ["get", "create"]},
    ]
    binding = {
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": shape.namespace}],
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
    }
    config = {"metadata": {**metadata, "name": hosts.config_name(shape)}, "data": data}
    # a rule without resourceNames would apply to all pods, so without workers the rule is left out
    role = {"metadata": metadata, "rules": rules if workers else rules[:1]}
    return (
        Companion(kind=catalog.CONFIGMAP, body=config, member="data"),
        Companion(kind=catalog.SERVICEACCOUNT, body={"metadata": {**metadata, "name": account}}, may_be_others=True),
        Companion(kind=catalog.ROLE, body=role, member="rules"),
        Companion(kind=catalog.ROLEBINDING, body=binding),
    )


def dress(shape: JobShape, role: str, spec: Json, options: PodOptions) -> None:
    """Change a pod in place: a launcher gets what it needs to start ranks, a worker what it needs to run them."""
    if not spec.get("containers"):
        return
    first = dict(spec["containers"][0])
    mount = {"name": hosts.VOLUME, "mountPath": hosts.FOLDER}
    modes = [(_AGENT, hosts.SCRIPT_MODE)]
    volumes: list[Json] = []
    mounts = [mount]
    if role == LAUNCHER:
        kubectl = {"name": _KUBECTL_VOLUME, "mountPath": _KUBECTL_FOLDER}
        mounts = [kubectl, mount]
        volumes = [{"name": _KUBECTL_VOLUME, "emptyDir": {}}]
        modes += [(hosts.HOSTFILE, hosts.TEXT_MODE), (hosts.DISCOVERY, hosts.SCRIPT_MODE)]
        first["env"] = _variables(shape, list(first.get("env") or ()))
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _delivery(shape, [kubectl, mount], options)]
        spec["serviceAccountName"] = _account(shape)
    elif not first.get("command") and not first.get("args"):
        first["command"] = _IDLE
    first["volumeMounts"] = [*(first.get("volumeMounts") or ()), *mounts]
    spec["containers"] = [first, *spec["containers"][1:]]
    spec["volumes"] = [*(spec.get("volumes") or ()), *volumes, hosts.config_volume(shape, modes)]


def _account(shape: JobShape) -> str:
    launcher = shape.roles.get(LAUNCHER)
    own = launcher.template.spec.service_account_name if launcher is not None else ""
    return own or shape.object_name(LAUNCHER, 0)


def _variables(shape: JobShape, given: list[Json]) -> list[Json]:
    """Return the launcher's environment; variables that the user has set for Intel's launcher stay."""
    added = {
        "OMPI_MCA_plm_rsh_agent": _AGENT_PATH,
        "OMPI_MCA_orte_default_hostfile": f"{hosts.FOLDER}/{hosts.HOSTFILE}",
    }
    if not hosts.runs_ranks(shape):  # a launcher without ranks has requested no GPU and must not use its node's
        added |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    names = {one.get("name") for one in given}
    intel = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": _AGENT_PATH}
    added |= {name: value for name, value in intel.items() if name not in names}
    return [*given, *({"name": name, "value": value} for name, value in added.items())]


def _delivery(shape: JobShape, mounts: list[Json], options: PodOptions) -> Json:
    """Return the init container that copies kubectl into the launcher and waits for the workers."""
    command = {"command": list(options.kubectl_command)} if options.kubectl_command else {}
    return {
        "name": "kubectl-delivery",
        "image": options.kubectl_image,
        "imagePullPolicy": "IfNotPresent",
        **command,
        "env": [{"name": "TARGET_DIR", "value": _KUBECTL_FOLDER}, {"name": "NAMESPACE", "value": shape.namespace}],
        "volumeMounts": mounts,
        "resources": {"limits": _DELIVERY, "requests": _DELIVERY},
    }
