"""The page of ``strato job view`` (spec volcano-cli A2.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strato.cli.output import fitted_table
from strato.cli.reasons.report import ReasonReport
from strato.client.cluster import Json
from strato.clock import SystemClock, parse_time
from strato.errors import harmless
from strato.units import human_duration

_COUNTERS = (
    ("Succeeded", "succeeded"),
    ("Pending", "pending"),
    ("Running", "running"),
    ("Failed", "failed"),
    ("Terminating", "terminating"),
    ("Unknown", "unknown"),
    ("RetryCount", "retryCount"),
    ("Min Available", "minAvailable"),
    ("Version", "version"),
)


def render_job(job: Json, events: Sequence[Json], report: ReasonReport | None = None) -> str:
    """Lay out a job, why it is as it is, and those events of its namespace that are about it."""
    lines = [*_head(job), *_spec(job.get("spec", {})), *_status(job.get("status", {}), report)]
    return harmless("\n".join([*lines, *_events(job["metadata"]["name"], events)]))


def _line(level: int, label: str, value: object = "") -> str:
    return f"{'  ' * level}{label}:\t{value}".rstrip()


def _moment(stamp: str) -> str:
    """Return a time of the wire, which is UTC, as Volcano's page writes it."""
    return f"{stamp[:10]} {stamp[11:19]} +0000 UTC" if stamp else "<unknown>"


def _head(job: Json) -> Iterator[str]:
    metadata = job["metadata"]
    labels = metadata.get("labels")
    yield _line(0, "Name", metadata["name"])
    yield _line(0, "Namespace", metadata.get("namespace", ""))
    yield _line(0, "Labels", json.dumps(labels) if labels else "<none>")
    annotations = metadata.get("annotations")
    yield _line(0, "Annotations", json.dumps(annotations) if annotations else "<none>")
    yield _line(0, "API Version", job.get("apiVersion", ""))
    yield _line(0, "Kind", job.get("kind", ""))
    yield _line(0, "Metadata")
    yield _line(1, "Creation Timestamp", _moment(metadata.get("creationTimestamp", "")))
    if metadata.get("generateName"):
        yield _line(1, "Generate Name", metadata["generateName"])
    yield _line(1, "Generation", metadata.get("generation", 0))
    yield _line(1, "Resource Version", metadata.get("resourceVersion", ""))
    yield _line(1, "UID", metadata.get("uid", ""))


def _spec(spec: Mapping[str, Any]) -> Iterator[str]:
    yield _line(0, "Spec")
    yield _line(1, "Min Available", spec.get("minAvailable", 0))
    yield _line(1, "Plugins")
    for name, arguments in (spec.get("plugins") or {}).items():
        yield _line(2, name.capitalize(), json.dumps(arguments or []))
    yield _line(1, "Scheduler Name", spec.get("schedulerName", ""))
    yield _line(1, "Tasks")
    for task in spec.get("tasks", ()):
        yield _line(2, "Name", task.get("name", ""))
        yield _line(2, "Replicas", task.get("replicas", 0))
        yield from _template(task.get("template", {}))


def _template(template: Mapping[str, Any]) -> Iterator[str]:
    yield _line(2, "Template")
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    if metadata.get("annotations"):
        yield _line(3, "Metadata")
        yield _line(4, "Annotations", json.dumps(metadata["annotations"]))
    yield _line(3, "Spec")
    yield _line(4, "Containers")
    for container in spec.get("containers", ()):
        yield from _container(container)
    if spec.get("imagePullSecrets"):
        yield _line(4, "Image Pull Secrets", json.dumps([secret.get("name") for secret in spec["imagePullSecrets"]]))
    yield _line(4, "Restart Policy", spec.get("restartPolicy", "Always"))


def _container(container: Mapping[str, Any]) -> Iterator[str]:
    if container.get("command"):
        yield _line(5, "Command")
        yield from (f"{'  ' * 6}{word}" for word in container["command"])
    yield _line(5, "Image", container.get("image", ""))
    yield _line(5, "Name", container.get("name", ""))
    if container.get("ports"):
        yield _line(5, "Ports", json.dumps(container["ports"]))
    resources = container.get("resources") or {}
    if resources:
        yield _line(5, "Resources")
    for title, member in (("Limits", "limits"), ("Requests", "requests")):
        amounts = resources.get(member) or {}
        if amounts:
            yield _line(6, title)
            yield from (_line(7, name.capitalize(), amounts[name]) for name in ("cpu", "memory") if name in amounts)
    if container.get("workingDir"):
        yield _line(5, "Working Dir", container["workingDir"])


def _status(status: Mapping[str, Any], report: ReasonReport | None) -> Iterator[str]:
    yield _line(0, "Status")
    for title, member in _COUNTERS:
        if status.get(member):
            yield _line(1, title, status[member])
    yield _line(1, "State")
    yield _line(2, "Phase", status.get("state", {}).get("phase", ""))
    if report is not None:
        yield _line(2, "Reason", report.summary)
        for detail in report.details():
            title, _, text = detail.partition(": ") if detail.startswith("next: ") else ("Reason", "", detail)
            yield _line(2, title.capitalize(), text.strip())
        if report.waits:
            yield _line(2, "Next", report.question)
    if status.get("controlledResources"):
        yield _line(1, "Controlled Resources")
        for name, value in status["controlledResources"].items():
            yield _line(2, name, value)
    if status.get("conditions"):
        yield _line(1, "Conditions")
        yield "    Status\tTransitionTime"
        for condition in status["conditions"]:
            yield f"    {condition.get('status', '')}\t{_moment(condition.get('lastTransitionTime', ''))}"


def _events(name: str, events: Sequence[Json]) -> Iterator[str]:
    about = [event for event in events if event["metadata"]["name"].startswith(f"{name}.")]
    if not about:
        yield "Events:\t<none>"
        return
    now = SystemClock().now()
    rows = [
        (
            event.get("type", ""),
            event.get("reason", ""),
            _age(event, now),
            (event.get("source") or {}).get("component", ""),
            event.get("message", "").strip(),
        )
        for event in sorted(about, key=lambda event: event.get("lastTimestamp") or "")
    ]
    yield "Events:"
    yield fitted_table(("Type", "Reason", "Age", "Form", "Message"), rows)


def _age(event: Json, now: float) -> str:
    last, first = event.get("lastTimestamp"), event.get("firstTimestamp")
    if not last:
        return "<unknown>"
    age = human_duration(now - parse_time(last))
    if event.get("count", 1) > 1 and first:
        return f"{age} (x{event['count']} over {human_duration(now - parse_time(first))})"
    return age
