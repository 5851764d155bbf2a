"""Find the pod that a command's target names: by its own name, a job's or a service's."""

from __future__ import annotations

from typing import Any

from strato.api import catalog
from strato.client.cluster import Cluster, Json
from strato.errors import ApiError, NotFound, UsageError

_JOBS = ("job", "jobs", "vcjob", "vcjobs", "job.batch.volcano.sh")
_SERVICES = ("svc", "service", "services")
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


async def find_pod(cluster: Cluster, namespace: str, target: str, *, services: bool = False) -> Json:
    """Return the pod that a target names; of several the first one that runs.

    Args:
        cluster: The pod's cluster.
        namespace: The pod's namespace.
        target: ``NAME``, ``pod/NAME``, ``job/NAME`` or, with ``services``, ``svc/NAME``.
        services: Whether a target may be a service.

    Raises:
        UsageError: The target is none of these, or has no pod that runs.
        ApiError: There is no such pod, job or service.
    """
    kind, _, name = target.rpartition("/")
    if not name or kind not in ("", "pod", "pods", "po", *_JOBS, *(_SERVICES if services else ())):
        known = "a pod's name, pod/NAME, job/NAME" + (" or svc/NAME" if services else "")
        raise UsageError(f"{target!r}: write {known}")
    if kind in _JOBS:
        return await _pod_of_job(cluster, namespace, name)
    if kind in _SERVICES:
        return await _pod_of_service(cluster, namespace, name)
    try:
        found: Json = await cluster.get(catalog.POD, name, namespace)
    except NotFound as error:
        raise await job_meant(cluster, namespace, name, error) from error
    return found


async def job_meant(cluster: Cluster, namespace: str, name: str, missing: NotFound) -> NotFound:
    """Return the error to raise for a missing pod; when a job has its name, the error says to write ``job/NAME``."""
    for kind in (catalog.VCJOB, catalog.JOB):
        try:
            await cluster.get(kind, name, namespace)
        except ApiError:  # no such job, or this user may not read it
            continue
        return NotFound(f"{missing.message}; a job has this name: write job/{name}")
    return missing


async def _pod_of_job(cluster: Cluster, namespace: str, name: str) -> Json:
    pods = await _selected(cluster, namespace, f"volcano.sh/job-name={name}")
    phase = ""
    try:
        job = await cluster.get(catalog.VCJOB, name, namespace)
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or "Pending"
    except NotFound:  # perhaps a Job of batch/v1
        await cluster.get(catalog.JOB, name, namespace)
        pods = await _selected(cluster, namespace, f"batch.kubernetes.io/job-name={name}")
    running = _running(pods)
    if running is None:
        why = f"it is {phase}" if phase else f"it has {len(pods)} pods"
        raise UsageError(
            f"job {namespace}/{name} has no pod that runs: {why}; see 'strato explain job/{name}' and "
            f"'strato job logs {name}'"
        )
    return running


async def _pod_of_service(cluster: Cluster, namespace: str, name: str) -> Json:
    service = await cluster.get(catalog.SERVICE, name, namespace)
    selector = service["spec"].get("selector") or {}
    if not selector:
        raise UsageError(f"service {namespace}/{name} selects no pods; name a pod")
    running = _running(await _selected(cluster, namespace, ",".join(f"{k}={v}" for k, v in selector.items())))
    if running is None:
        raise UsageError(f"service {namespace}/{name} has no pod that runs")
    return running


async def _selected(cluster: Cluster, namespace: str, selector: str) -> list[Json]:
    page = await cluster.list(catalog.POD, namespace, label_selector=selector)
    return list(page.items)


def _running(pods: list[Json]) -> Json | None:
    """Return the first pod that runs, those that are ready first."""

    def order(pod: Json) -> tuple[bool, str]:
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())
        return not ready, pod["metadata"]["name"]

    alive = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    alive = [pod for pod in alive if not pod["metadata"].get("deletionTimestamp")]
    return min(alive, key=order, default=None)


def container_of(pod: Json, asked: str) -> str:
    """Return the container that is meant: the one asked for, the default one, the first.

    Raises:
        UsageError: The pod has no such container.
    """
    spec: dict[str, Any] = pod["spec"]
    members = ("containers", "initContainers", "ephemeralContainers")
    names = [one["name"] for member in members for one in spec.get(member) or ()]
    default = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    if asked and asked not in names:
        raise UsageError(f"pod {pod['metadata']['name']} has no container {asked!r}; it has {', '.join(names)}")
    return str(asked or (default if default in names else names[0]))
