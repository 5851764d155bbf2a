"""``strato job tree``: a job, its pod group, tasks, pods and what else it owns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strato.cli.job.objects import JobObjects
from strato.client.cluster import Json

Branch = tuple[str, "Sequence[Branch]"]


def render_tree(objects: JobObjects) -> str:
    """Lay out one line per object."""
    job = objects.job
    spec, status = job.get("spec", {}), job.get("status", {})
    phase = (status.get("state") or {}).get("phase") or "new"
    branches: list[Branch] = [(_group(group), ()) for group in objects.groups]
    for task in spec.get("tasks", ()):
        pods = objects.pods_of(task.get("name", ""))
        title = f"task {task.get('name', '')}: {len(pods)} of {task.get('replicas', 0)} pods"
        after = (task.get("dependsOn") or {}).get("name")
        if after:
            title += f", after {', '.join(after)}"
        branches.append((title, [(_pod(pod), ()) for pod in pods]))
    branches += [(f"{kind.name} {item['metadata']['name']}", ()) for kind, item in objects.others]
    head = (
        f"Job {job['metadata'].get('namespace', '')}/{job['metadata']['name']}: {phase}, queue {spec.get('queue', '')}"
    )
    return "\n".join([head, *_lines(branches, "")])


def _group(group: Json) -> str:
    spec, status = group.get("spec", {}), group.get("status", {})
    phase = status.get("phase") or "new"
    waits = next((c.get("message", "") for c in status.get("conditions") or () if c.get("type") == "Unschedulable"), "")
    reason = f": {waits}" if waits and phase in ("Pending", "Inqueue") else ""
    return f"PodGroup {group['metadata']['name']}: {phase}, at least {spec.get('minMember', 0)} pods{reason}"


def _pod(pod: Json) -> str:
    status = pod.get("status", {})
    phase = "Terminating" if pod["metadata"].get("deletionTimestamp") else status.get("phase", "Pending")
    node = pod.get("spec", {}).get("nodeName")
    restarts = sum(container.get("restartCount", 0) for container in status.get("containerStatuses") or ())
    text = f"Pod {pod['metadata']['name']}: {phase}" + (f" on {node}" if node else "")
    return text + (f", {restarts} restarts" if restarts else "")


def _lines(branches: Sequence[Branch], indent: str) -> Iterator[str]:
    for number, (text, inner) in enumerate(branches, 1):
        last = number == len(branches)
        yield f"{indent}{'└─' if last else '├─'} {text}"
        yield from _lines(inner, indent + ("   " if last else "│  "))
