"""Why a pod is as it is, from its status and the events about it; pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from strato.api.quantity import resource_text
from strato.cli.reasons.report import StateReason
from strato.client.cluster import Json

OUR_SCHEDULERS: Final = ("", "volcano", "default-scheduler", "poseidon")
"""Values of ``schedulerName`` that Strato's scheduler, or the cluster's default one, serves."""
_NO_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ErrImageInspect")
_STARTING: Final = ("ContainerCreating", "PodInitializing", "")
_SHELL_CODES: Final = {126: "found but not executable", 127: "command not found"}
_SIGNALLED: Final = 128
"""Exit codes above this mean a signal: shells and container runtimes report 128 plus its number."""
_MISSING: Final = re.compile(r'(configmap|secret|persistentvolumeclaim) "?([^"\s]+)"? not found', re.IGNORECASE)
_KIND_OF: Final = {"configmap": "ConfigMap", "secret": "Secret", "persistentvolumeclaim": "PersistentVolumeClaim"}
_LONGEST_MESSAGE: Final = 300


def pod_reason(pod: Json, events: Iterable[Json] = ()) -> StateReason | None:
    """Return why a pod has failed, cannot start or waits; None when it runs, has run, or is about to."""
    status = pod.get("status") or {}
    match status.get("phase", "Pending"):
        case "Succeeded":
            return None
        case "Failed":
            return _failed(pod, status)
    if pod["metadata"].get("deletionTimestamp"):
        return StateReason("Terminating", _with_disruption("it is being deleted", status))
    if not (pod.get("spec") or {}).get("nodeName"):
        return _unscheduled(pod, status)
    for who, container in _containers(status):
        found = _not_running(who, container, pod)
        if found is not None:
            return found
    return _not_started(pod, status, events)


# -- ended -------------------------------------------------------------------------------------------------------------


def _failed(pod: Json, status: Json) -> StateReason:
    reason, message = status.get("reason", ""), _line(status.get("message", ""))
    ended = _first_failure(status)
    if reason == "DeadlineExceeded":
        seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
        limit = f"activeDeadlineSeconds ({seconds} s)" if seconds is not None else "its job's deadline"
        return StateReason(reason, f"it ran longer than {limit}", "give it more time, or less to do")
    if reason == "Evicted":
        return StateReason(reason, f"its node evicted it: {message or 'without a message'}")
    if reason:
        return StateReason(reason, f"{reason}: {message}" if message else f"its node ended it ({reason})")
    disruption = _condition(status, "DisruptionTarget")
    if disruption is not None:
        return StateReason(disruption.get("reason", ""), _with_disruption("it was ended", status))
    if ended is None:
        return StateReason("Failed", "it failed, and its containers' statuses do not say why")
    return container_end(*ended, pod)


def _first_failure(status: Json) -> tuple[str, Json] | None:
    """Return the container that failed first, whose failure mostly caused those of the others."""
    ends = [(who, (container.get("state") or {}).get("terminated")) for who, container in _containers(status)]
    failed = [(who, end) for who, end in ends if end and end.get("exitCode")]
    return min(failed, key=lambda one: one[1].get("finishedAt") or "", default=None)


def container_end(who: str, end: Json, pod: Json) -> StateReason:
    """Return the reason for a container's end: its exit code, signal or OOM kill."""
    code, reason, message = end.get("exitCode", 0), end.get("reason", ""), _line(end.get("message", ""))
    if reason == "OOMKilled":
        limit = _memory_limit(pod, who.rpartition(" ")[2])
        text = f"its limit of {limit} of memory" if limit else "the memory its node had"
        return StateReason(
            reason,
            f"{who} was killed for using more than {text} (OOMKilled)",
            "raise its memory limit (limits.memory; -L of job run)",
        )
    if reason in ("StartError", "ContainerCannotRun"):
        hint = "correct its command, or use an image that has it"
        return StateReason(reason, f"{who} could not be started: {message or 'without a message'}", hint)
    if reason == "ContainerStatusUnknown":
        return StateReason(reason, f"{who} is gone without an exit code: {message or 'its node lost track of it'}")
    tail = f": {message}" if message else ""
    if end.get("signal"):
        name = _signal_name(end["signal"])
        how = f"was ended by signal {end['signal']}{name and f' ({name})'}, exit code {code}"
        return StateReason(name or f"signal {end['signal']}", f"{who} {how}{tail}")
    known = _SHELL_CODES.get(code, "")
    if code > _SIGNALLED and (name := _signal_name(code - _SIGNALLED)):
        known = f"{_SIGNALLED} + {code - _SIGNALLED}: {name}"
    return StateReason(f"exit code {code}", f"{who} exited with code {code}{known and f' ({known})'}{tail}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _memory_limit(pod: Json, name: str) -> str:
    spec = pod.get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container.get("name") == name and limit:
            return resource_text("memory", limit)
    return ""


def _with_disruption(text: str, status: Json) -> str:
    condition = _condition(status, "DisruptionTarget")
    if condition is None:
        return text
    return f"{text}: {_line(condition.get('message', '')) or condition.get('reason', '')}"


# -- waiting -----------------------------------------------------------------------------------------------------------


def _unscheduled(pod: Json, status: Json) -> StateReason:
    spec = pod.get("spec") or {}
    gates = [gate.get("name", "") for gate in spec.get("schedulingGates") or ()]
    if gates:
        return StateReason("SchedulingGated", f"it has scheduling gates: {', '.join(gates)}", waits=True)
    condition = next((c for c in status.get("conditions") or () if c.get("type") == "PodScheduled"), None)
    if condition is not None:
        return StateReason(condition.get("reason") or "Unschedulable", _line(condition.get("message", "")), waits=True)
    name = spec.get("schedulerName", "")
    if name not in OUR_SCHEDULERS:
        return StateReason(
            "OtherScheduler",
            f"it is for the scheduler {name!r}, and none of that name has looked at it",
            "name a scheduler that runs here: Strato's is volcano (schedulerName; -S of job run)",
        )
    return StateReason("", "the scheduler has not looked at it yet", waits=True)


def _not_running(who: str, container: Json, pod: Json) -> StateReason | None:
    """Say why a container of a pod on a node does not run; None when it runs or may do so soon."""
    waiting = (container.get("state") or {}).get("waiting")
    reason = (waiting or {}).get("reason", "")
    if waiting is None or reason in _STARTING:
        return None
    message = _line(waiting.get("message", ""))
    if reason == "CrashLoopBackOff":
        last = (container.get("lastState") or {}).get("terminated")
        again = f"again and again ({_times(container.get('restartCount', 0))} so far)"
        if not last:
            return StateReason(reason, f"{who} ends {again}")
        end = container_end(who, last, pod)
        return StateReason(reason, f"{end.text}, {again}", end.hint)
    if reason in _NO_IMAGE:
        image = container.get("image", "")
        about = "" if not image or image in message else f" {image}"
        hint = (
            "" if "strato image import" in message else "correct the image's name, or bring it where its node finds it"
        )
        return StateReason(reason, f"{who} has no image{about}: {message or reason}", hint)
    return StateReason(reason, f"{who} cannot be started: {message or reason}", hint_of(message))


def _not_started(pod: Json, status: Json, events: Iterable[Json]) -> StateReason | None:
    """Return, from events alone, what hinders a pod whose containers are being created or do not become ready."""
    uid = pod["metadata"].get("uid")
    mine = [event for event in warnings(events) if (event.get("involvedObject") or {}).get("uid") == uid]
    runs = status.get("phase") == "Running" or any(
        (c.get("state") or {}).get("running") for _, c in _containers(status)
    )
    if runs and any(c.get("type") == "Ready" and c.get("status") == "False" for c in status.get("conditions") or ()):
        failing = [event for event in mine if event.get("reason") == "Unhealthy"]
        text = _line(max(failing, key=when).get("message", "")) if failing else ""
        return StateReason("Unhealthy", f"it runs, but is not ready: {text}") if failing else None
    hindering = [event for event in mine if event.get("reason", "").startswith(("Failed", "NetworkNotReady"))]
    if runs or not hindering:
        return None
    event = max(hindering, key=when)
    message = _line(event.get("message", ""))
    return StateReason(event["reason"], f"it cannot be started: {message}", hint_of(message))


def hint_of(message: str) -> str:
    """Return the hint for a message that names a missing object."""
    found = _MISSING.search(message)
    return f"create the {_KIND_OF[found[1].lower()]} {found[2]} in its namespace, or correct the name" if found else ""


def _times(count: int) -> str:
    return "1 restart" if count == 1 else f"{count} restarts"


# -- shared ------------------------------------------------------------------------------------------------------------


def _containers(status: Json) -> Iterator[tuple[str, Json]]:
    for kind, member in (("init container", "initContainerStatuses"), ("container", "containerStatuses")):
        for container in status.get(member) or ():
            yield f"{kind} {container.get('name', '')}", container


def _condition(status: Json, kind: str) -> Json | None:
    found: Sequence[Json] = status.get("conditions") or ()
    return next((c for c in found if c.get("type") == kind and c.get("status") == "True"), None)


def warnings(events: Iterable[Json]) -> list[Json]:
    """Return the events that are warnings."""
    return [event for event in events if event.get("type") == "Warning"]


def when(event: Json) -> str:
    """Return when an event was seen last, as text that sorts."""
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((str(m)[:19] for m in (*moments, metadata.get("creationTimestamp")) if m), "")


def _line(message: str) -> str:
    """Return a message as one line, shortened if it is long."""
    text = "; ".join(line.strip() for line in message.splitlines() if line.strip())
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
