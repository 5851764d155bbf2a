"""The lists of hosts that launchers read (spec training I1 and I2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from strato.api import catalog, mpioperator
from strato.api.core import Pod
from strato.api.frameworks import LAUNCHER, WORKER, JobShape

FOLDER: Final = "/etc/mpi"
VOLUME: Final = "mpi-job-config"
HOSTFILE: Final = "hostfile"
DISCOVERY: Final = "discover_hosts.sh"
_SHEBANG: Final = "#!/bin/sh"
SCRIPT_MODE: Final = 0o555
TEXT_MODE: Final = 0o444


def config_name(shape: JobShape) -> str:
    """Return the name of the ConfigMap that holds the lists."""
    return f"{shape.name}-config"


def config_volume(shape: JobShape, modes: Iterable[tuple[str, int]]) -> dict[str, object]:
    """Return the volume with some files of that ConfigMap, given with their modes."""
    items = [{"key": name, "path": name, "mode": mode} for name, mode in modes]
    return {"name": VOLUME, "configMap": {"name": config_name(shape), "items": items}}


def runs_ranks(shape: JobShape) -> bool:
    """Return whether the launcher runs ranks too: in v1 if it requests a GPU, in v2beta1 by ``runLauncherAsWorker``."""
    if shape.framework.kind is catalog.MPIJOB:
        return shape.spec.run_launcher_as_worker
    launcher = shape.roles.get(LAUNCHER)
    containers = launcher.template.spec.containers if launcher is not None else ()
    return any("gpu" in name for container in containers for name in container.resources.limits)


def by_pod(shape: JobShape) -> str:
    """Return the hostfile of a job of v1, whose hosts are the names of the pods."""
    return "".join(f"{name} slots={shape.slots}\n" for name in _hosts(shape))


def by_name(shape: JobShape, domain: str) -> str:
    """Return the hostfile of a job of v2beta1, in the syntax of its MPI implementation."""
    is_open = shape.spec.mpi_implementation in ("", mpioperator.OPEN_MPI)
    slots = f" slots={shape.slots}" if is_open else f":{shape.slots}"
    return "".join(f"{address(shape, name, domain)}{slots}\n" for name in _hosts(shape))


def discovery_by_pod(shape: JobShape, pods: Sequence[Pod]) -> str:
    """Return the script that prints the running hosts of a job of v1."""
    return "\n".join([_SHEBANG, *(f"echo {name}:{shape.slots}" for name in _running(shape, pods))])


def discovery_by_name(shape: JobShape, pods: Sequence[Pod], domain: str) -> str:
    """Return the script that prints the running hosts of a job of v2beta1."""
    lines = [_SHEBANG, *(f"echo {address(shape, name, domain)}" for name in _running(shape, pods))]
    return "".join(f"{line}\n" for line in lines)


def address(shape: JobShape, pod: str, domain: str) -> str:
    """Return the DNS name of a pod of a job of v2beta1."""
    return f"{pod}.{shape.name}.{shape.namespace}.svc{'.' if domain else ''}{domain}"


def _hosts(shape: JobShape) -> Iterator[str]:
    if runs_ranks(shape):
        yield shape.object_name(LAUNCHER, 0)
    for index in range(shape.count(WORKER)):
        yield shape.object_name(WORKER, index)


def _running(shape: JobShape, pods: Sequence[Pod]) -> Iterator[str]:
    if runs_ranks(shape):
        yield shape.object_name(LAUNCHER, 0)
    workers = {shape.object_name(WORKER, index) for index in range(shape.count(WORKER))}
    running = {pod.metadata.name for pod in pods if pod.status.phase == "Running"}
    yield from sorted(workers & running)
