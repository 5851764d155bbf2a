"""The page of one job (spec volcano-cli A2.3): every label with its own padding, a tab, the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strato.api import quantity
from strato.cli.volcano.texts import age, compact_json, local_time, words
from strato.client.cluster import Json

_ANNOTATIONS = {
    "Cri . Cci . Io / Container - Type": "cri.cci.io/container-type",
    "Kubernetes . Io / Availablezone": "kubernetes.io/availablezone",
    "Network . Alpha . Kubernetes . Io / Network": "network.alpha.kubernetes.io/network",
}
_COUNTERS = {
    "Succeeded": "succeeded", "Pending": "pending", "Running": "running", "Failed": "failed",
    "Terminating": "terminating", "Unknown": "unknown", "RetryCount": "retryCount", "Min Available": "minAvailable",
    "Version": "version",
}  # fmt: skip
_EVENTS = ("Type", "Reason", "Age", "Form", "Message")


def job_page(job: Json, events: Sequence[Json], *, conditions: bool) -> str:
    """Return the page; ``vjobs`` has no conditions."""
    lines = [
        *_head(job["metadata"]),
        *_spec(job.get("spec") or {}),
        *_status(job.get("status") or {}, conditions),
        *_events(job["metadata"]["name"], events),
    ]
    return "".join(f"{line}\n" for line in lines)


def _line(level: int, label: str, value: object = None, width: int = 0) -> str:
    """Return a label in its width with a value, or the heading of a section."""
    start = f"{'  ' * level}{label}:"
    return start if value is None else f"{start:{2 * level + width}}\t{value}"


def _head(meta: Mapping[str, Any]) -> Iterator[str]:
    yield _line(0, "Name", meta["name"], 12)
    yield _line(0, "Namespace", meta.get("namespace", ""), 12)
    yield _line(0, "Labels", compact_json(meta["labels"]) if meta.get("labels") else "<none>", 12)
    yield _line(0, "Annotations", compact_json(meta["annotations"]) if meta.get("annotations") else "<none>", 12)
    yield _line(0, "API Version", "", 12)  # both are empty in Volcano's output: client-go drops them when decoding
    yield _line(0, "Kind", "", 12)
    yield _line(0, "Metadata")
    yield _line(1, "Creation Timestamp", local_time(meta.get("creationTimestamp")), 19)
    yield _line(1, "Generate Name", meta.get("generateName", ""), 19)
    yield _line(1, "Generation", meta.get("generation", 0), 19)
    yield _line(1, "Resource Version", meta.get("resourceVersion", ""), 19)
    yield _line(1, "UID", meta.get("uid", ""), 19)


def _spec(spec: Mapping[str, Any]) -> Iterator[str]:
    plugins = spec.get("plugins") or {}
    yield _line(0, "Spec")
    yield _line(1, "Min Available", spec.get("minAvailable", 0), 19)
    yield _line(1, "Plugins")
    yield _line(2, "Env", words(plugins.get("env")))
    yield _line(2, "Ssh", words(plugins.get("ssh")))
    yield _line(1, "Scheduler Name", spec.get("schedulerName", ""), 19)
    yield _line(1, "Tasks")
    for task in spec.get("tasks") or ():
        yield _line(2, "Name", task.get("name", ""))
        yield _line(2, "Replicas", task.get("replicas", 0))
        yield from _template(task.get("template") or {})


def _template(template: Mapping[str, Any]) -> Iterator[str]:
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations = meta.get("annotations") or {}
    yield _line(2, "Template")
    yield _line(3, "Metadata")
    yield _line(4, "Annotations")
    for label, key in _ANNOTATIONS.items():
        yield _line(5, label, annotations.get(key, ""), 44)
    yield _line(4, "Creation Timestamp", local_time(meta.get("creationTimestamp")))
    yield _line(3, "Spec")
    yield _line(4, "Containers")
    for container in spec.get("containers") or ():
        yield from _container(container)
    yield _line(4, "Image Pull Secrets")
    for secret in spec.get("imagePullSecrets") or ():
        yield _line(5, "Name", secret.get("name", ""), 10)
    yield _line(4, "Restart Policy", spec.get("restartPolicy", ""), 18)


def _container(container: Mapping[str, Any]) -> Iterator[str]:
    yield _line(5, "Command")
    for word in container.get("command") or ():
        yield f"{'  ' * 6}{word}"
    yield _line(5, "Image", container.get("image", ""))
    yield _line(5, "Name", container.get("name", ""), 6)
    yield _line(5, "Ports")
    for port in container.get("ports") or ():
        yield _line(6, "Container Port", port.get("containerPort", 0))
        yield _line(6, "Name", port.get("name", ""), 15)
    yield _line(5, "Resources")
    resources = container.get("resources") or {}
    for title in ("Limits", "Requests"):
        amounts = resources.get(title.lower()) or {}
        yield _line(6, title)
        for name in ("cpu", "memory"):
            yield _line(7, name.capitalize(), quantity.canonical(amounts.get(name, "0")), 7)
    yield _line(6, "Working Dir", container.get("workingDir", ""))


def _status(status: Mapping[str, Any], conditions: bool) -> Iterator[str]:
    yield _line(0, "Status")
    for label, member in _COUNTERS.items():
        if status.get(member, 0) > 0:
            yield _line(1, label, status[member], 14)
    yield _line(1, "State")
    yield _line(2, "Phase", (status.get("state") or {}).get("phase", ""))
    if status.get("controlledResources"):
        yield _line(1, "Controlled Resources")
        for name, value in status["controlledResources"].items():
            yield f"    {name}: \t{value}"
    if conditions and status.get("conditions"):
        yield _line(1, "Conditions")
        yield "    Status\tTransitionTime"
        for condition in status["conditions"]:
            yield f"    {condition.get('status', '')} \t{local_time(condition.get('lastTransitionTime'))} "


def _events(job: str, events: Sequence[Json]) -> Iterator[str]:
    about = [event for event in events if event["metadata"]["name"].startswith(f"{job}.")]
    if not about:
        yield "Events: \t<none>"
        return
    yield "Events:"
    yield _event_line(_EVENTS)
    yield _event_line(("-------",) * len(_EVENTS))
    for event in about:
        source = event.get("source") or {}
        origin = ", ".join([source.get("component", ""), *([source["host"]] if source.get("host") else [])])
        message = event.get("message", "").strip()
        yield _event_line((event.get("type", ""), event.get("reason", ""), _times(event), origin, message))


def _event_line(cells: Sequence[str]) -> str:
    type_, reason, when, origin, message = cells
    return f"{type_:15}\t{reason:40}\t{when:30}\t{origin:40}\t{message}"


def _times(event: Json) -> str:
    first = age(event.get("firstTimestamp"))
    count = event.get("count") or 0
    return f"{age(event.get('lastTimestamp'))} (x{count} over {first})" if count > 1 else first
