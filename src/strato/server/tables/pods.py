"""The columns of pods, with kubectl's whole STATUS logic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from strato.clock import parse_time
from strato.server.tables.columns import NONE, Obj, TableFormat, age, condition, name, part, table_format
from strato.units import human_duration


def _cells(pod: Obj, now: float) -> list[Any]:
    status: Obj = pod.get("status") or {}
    statuses = status.get("containerStatuses") or ()
    init = _init_statuses(pod)
    sidecars = [one for one in init if one["name"] in _sidecar_names(pod)]
    total = len(part(pod, "spec", "containers") or ()) + len(_sidecar_names(pod))
    ready = sum(_is_up(one) for one in (*statuses, *sidecars))
    gates = part(pod, "spec", "readinessGates") or ()
    passed = sum(_passes(pod, gate) for gate in gates)
    addresses = status.get("podIPs") or ()
    ip = addresses[0].get("ip") if addresses else status.get("podIP")
    return [
        name(pod),
        f"{ready}/{total}",
        pod_status(pod),
        _restarts(pod, now),
        age(pod, now),
        ip or NONE,
        part(pod, "spec", "nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def _passes(pod: Obj, gate: Obj) -> bool:
    found = condition(pod, gate.get("conditionType", ""))
    return found is not None and found.get("status") == "True"


def _is_up(status: Obj) -> bool:
    return bool(status.get("ready")) and part(status, "state", "running") is not None


def _init_statuses(pod: Obj) -> list[Obj]:
    return list(part(pod, "status", "initContainerStatuses") or ())


def _sidecar_names(pod: Obj) -> set[str]:
    found = part(pod, "spec", "initContainers") or ()
    return {one["name"] for one in found if one.get("restartPolicy") == "Always"}


def pod_status(pod: Obj) -> str:
    """Return the STATUS column, computed as kubectl does from phase, containers' reasons, and deletion."""
    status: Obj = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    scheduled = condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    initializing = _init_reason(pod)
    if initializing is not None:
        reason = initializing
    initialized = condition(pod, "Initialized")
    if initializing is None or (initialized is not None and initialized.get("status") == "True"):
        reason = _main_reason(pod, reason)
    if part(pod, "metadata", "deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason or "Unknown"


def _init_reason(pod: Obj) -> str | None:
    """Return ``Init:…`` while init containers run; None once all are done."""
    sidecars, total = _sidecar_names(pod), len(part(pod, "spec", "initContainers") or ())
    for index, one in enumerate(_init_statuses(pod)):
        ended, waiting = part(one, "state", "terminated"), part(one, "state", "waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if one["name"] in sidecars and one.get("started"):
            continue
        if ended is not None:
            return "Init:" + (ended.get("reason") or _exit_text(ended))
        if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return None


def _exit_text(ended: Obj) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _main_reason(pod: Obj, reason: str) -> str:
    running = False
    for one in reversed(part(pod, "status", "containerStatuses") or []):
        waiting, ended = part(one, "state", "waiting"), part(one, "state", "terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or _exit_text(ended)
        elif _is_up(one):
            running = True
    if reason == "Completed" and running:
        ready = condition(pod, "Ready")
        return "Running" if ready is not None and ready.get("status") == "True" else "NotReady"
    return reason


def _restarts(pod: Obj, now: float) -> str:
    """Return the number of restarts and the time since the last; during initialization, those of init containers."""
    sidecars = _sidecar_names(pod)
    init = _init_statuses(pod)
    if _init_reason(pod) is not None:
        count, last = _count(init)
    else:
        mains = part(pod, "status", "containerStatuses") or ()
        count, last = _count([*(one for one in init if one["name"] in sidecars), *mains])
    if count and last is not None:
        return f"{count} ({human_duration(now - last)} ago)"
    return str(count)


def _count(statuses: Iterable[Obj]) -> tuple[int, float | None]:
    count, last = 0, None
    for one in statuses:
        count += one.get("restartCount", 0)
        ended = part(one, "lastState", "terminated", "finishedAt")
        if ended:
            instant = parse_time(ended)
            last = instant if last is None else max(last, instant)
    return count, last


def _conditions(pod: Obj) -> list[dict[str, Any]]:
    """Return the condition Completed for finished pods, which clients may show differently."""
    match part(pod, "status", "phase"):
        case "Succeeded":
            return [_completed("Succeeded", "The pod has completed successfully.")]
        case "Failed":
            return [_completed("Failed", "The pod failed.")]
    return []


def _completed(reason: str, message: str) -> dict[str, Any]:
    return {"type": "Completed", "status": "True", "reason": reason, "message": message}


FORMATS: Mapping[str, TableFormat] = {
    "pods": table_format(
        "Name|Ready|Status|Restarts|Age|*IP|*Node|*Nominated Node|*Readiness Gates", _cells, _conditions
    )
}
"""By ``plural.group``."""
