"""Why a job of Volcano's kind failed, is suspended, waits or cannot go on; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from strato.api.counted import names_text
from strato.cli.reasons.facts import Facts, owned_by
from strato.cli.reasons.pods import warnings, when
from strato.cli.reasons.report import ReasonReport, StateReason
from strato.client.cluster import Json

_REFUSED: Final = ("FailedCreate", "PodGroupError", "PVCError", "PluginError", "TrainJobResourcesCreationFailed")
"""Event reasons under which controllers report that a pod, pod group or claim of a job cannot be created."""
_REFUSALS: Final = (
    (re.compile(r"exceeded quota: ([^,]+)"), "QuotaExceeded", "free some of quota {0}, or have it raised"),
    (re.compile(r"must specify .*quota|failed quota: ([^:]+)"), "QuotaExceeded", "set what quota {0} asks for"),
    (
        re.compile(r"no PriorityClass with name (\S+) was found"),
        "NoPriorityClass",
        "create the PriorityClass {0}, or name one of 'kubectl get priorityclasses'",
    ),
    (re.compile(r"violates PodSecurity \"([^\"]+)\""), "PodSecurity", "keep to the level {0} of its namespace"),
    (re.compile(r"(?:maximum|minimum) .* usage per|LimitRange"), "LimitRange", "keep to the namespace's LimitRange"),
    (re.compile(r"admission webhook \"([^\"]+)\" denied"), "AdmissionDenied", "satisfy the webhook {0}"),
    (re.compile(r"denied request: |ValidatingAdmissionPolicy '([^']+)'"), "AdmissionDenied", "satisfy the policy"),
    (re.compile(r"error looking up service account"), "NoServiceAccount", "create the service account"),
    (re.compile(r"exists but does not belong"), "NameTaken", "delete that pod, or rename the job"),
    (re.compile(r"is forbidden"), "Forbidden", ""),
)
"""Messages by which pods are refused, with a word for a column and a hint."""
_RESOURCE: Final = re.compile(r"(?:Insufficient|insufficient|overused) ([a-z][\w./-]*\w)")
_PODS: Final = "its pods"
_SUSPENDED: Final = ("Aborting", "Aborted")
_TERMINATED: Final = ("Terminating", "Terminated")
_ACTIONS: Final = {"Aborting": "AbortJob", "Aborted": "AbortJob"} | dict.fromkeys(_TERMINATED, "TerminateJob")


def job_report(job: Json, facts: Facts) -> ReasonReport:
    """Return why a job is as it is.

    Args:
        job: Of the group batch.volcano.sh.
        facts: Its pods, its pod group and the events of its namespace.
    """
    phase = phase_of(job)
    pods = facts.pods_of(job)
    reasons = facts.reasons_of(pods)
    events = facts.events_of(job)
    failed = {name: reasons[name] for name in _in_phase(pods, "Failed") if name in reasons}
    match phase:
        case "Failed":
            return _failed(job, pods, failed, events)
        case "Aborting" | "Aborted" | "Terminating" | "Terminated":
            return _stopped(job, phase, failed, events)
        case "Completing" | "Completed":
            return _completed(job, phase, pods, failed)
    return _live(job, phase, pods, reasons, facts)


# -- ended -------------------------------------------------------------------------------------------------------------


def _failed(job: Json, pods: Sequence[Json], failed: Mapping[str, StateReason], events: Sequence[Json]) -> ReasonReport:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    code, why = stated(failed, replicas(job))
    before = ""
    tries, most = status.get("retryCount", 0), spec.get("maxRetry", 0)
    if tries and tries >= most:
        before = f"it was tried {_count(tries, 'time')} (maxRetry {most}); the last time "
    least, succeeded = spec.get("minSuccess"), len(_in_phase(pods, "Succeeded"))
    notes = [] if least is None else [f"{succeeded} pods succeeded, minSuccess is {least}"]
    state = status.get("state") or {}
    if not why and state.get("message"):
        code, why = state.get("reason", "Failed"), str(state["message"])
    if not why:
        refused = creation_refusal(events)
        code, why = refused[:2] if refused else ("Failed", "none of its pods is left to say why")
    return _report(job, "Failed", code, f"{before}{why}", pods=failed, notes=notes, hints=_hints(job, failed))


def _stopped(job: Json, phase: str, failed: Mapping[str, StateReason], events: Sequence[Json]) -> ReasonReport:
    """Report on a suspended or terminated job: who or what had it suspended or terminated."""
    action = _ACTIONS[phase]
    code, why = stated(failed, replicas(job))
    cause = _cause(job, action, events)
    refusal = creation_refusal(events) if "retry limit" in cause else None
    if refusal is not None:
        cause = f"{cause}: {refusal[1]}"
    refused, advice = _classified(cause)
    state = (job.get("status") or {}).get("state") or {}
    code = refused or code or state.get("reason", "")
    word = "suspended" if phase in _SUSPENDED else "terminated"
    summary = f"it is {word}: {cause}" if phase in _SUSPENDED else f"it was {word}: {cause}"
    if why and not any(name in cause for name in failed):
        summary += f"; {why}"
    hints = [*advice, *_hints(job, failed)]
    if phase in _SUSPENDED:
        code = "suspended"
        hints = [f"strato job resume -N {job['metadata']['name']}{_namespace(job)}", *hints]
    return _report(job, phase, code or word, summary, pods=failed, hints=hints)


def _cause(job: Json, action: str, events: Sequence[Json]) -> str:
    """Return what made the controller act: from the job's status, else from events."""
    state = (job.get("status") or {}).get("state") or {}
    if state.get("message"):
        return str(state["message"])
    mine = sorted(events, key=when)
    if any(e.get("reason") == "CommandIssued" and f"command {action}" in e.get("message", "") for e in mine):
        return f"somebody issued the command {action}"
    if any("retry limit reached" in event.get("message", "") for event in mine):
        return "the controller gave it up at its retry limit"
    policies = _policies_for(job, action)
    if policies:
        return f"its policy {' or '.join(policies)} was met"
    return f"the controller was asked for {action}, and the events that say by whom are gone"


def _policies_for(job: Json, action: str) -> list[str]:
    spec = job.get("spec") or {}
    found = [(policy, "") for policy in spec.get("policies") or ()]
    for task in spec.get("tasks") or ():
        found += [(policy, f" of task {task.get('name', '')}") for policy in task.get("policies") or ()]
    texts = []
    for policy, of in found:
        if policy.get("action") == action:
            events = [policy.get("event", ""), *(policy.get("events") or ())]
            on = "/".join(filter(None, events)) or f"exit code {policy.get('exitCode')}"
            texts.append(f"{on} → {action}{of}")
    return texts


def _completed(job: Json, phase: str, pods: Sequence[Json], failed: Mapping[str, StateReason]) -> ReasonReport:
    succeeded = len(_in_phase(pods, "Succeeded"))
    summary = f"{succeeded} of {replicas(job)} pods succeeded" if pods else "it has completed"
    if failed:
        summary += f"; {stated(failed, replicas(job))[1]}"
    return _report(job, phase, "", summary, pods=failed, hints=_hints(job, failed))


# -- live --------------------------------------------------------------------------------------------------------------


def _live(
    job: Json, phase: str, pods: Sequence[Json], reasons: Mapping[str, StateReason], facts: Facts
) -> ReasonReport:
    stuck = {name: reason for name, reason in reasons.items() if reason.code and not reason.waits}
    waiting = {name: reason for name, reason in reasons.items() if reason.waits}
    running, total = len(_in_phase(pods, "Running")), replicas(job)
    tries = (job.get("status") or {}).get("retryCount", 0)
    notes, hints = _dependencies(job, pods), _hints(job, stuck)
    if tries and phase in ("Restarting", "Pending", "Running"):
        notes.append(f"try {tries + 1}, maxRetry {(job.get('spec') or {}).get('maxRetry', 0)}")
    state = (job.get("status") or {}).get("state") or {}
    if phase == "Pending" and not pods and state.get("message"):
        return _report(job, phase, state.get("reason", ""), str(state["message"]), notes=notes)
    if phase == "Restarting" and state.get("message"):
        return _report(job, phase, "", f"it is restarted: {state['message']}", pods=stuck, notes=notes, hints=hints)
    newest = max((pod["metadata"].get("creationTimestamp") or "" for pod in pods), default="")
    refusal = creation_refusal(facts.events_of(job), since=newest) if len(pods) < total else None
    if refusal is not None and (_is_admitted(job, facts) or not refusal[1].startswith(_PODS)):
        code, why, advice = refusal
        return _report(job, phase, code, why, pods=stuck, notes=notes, hints=[*advice, *hints])
    if stuck:
        code, why = stated(stuck, total)
        if running > len([name for name in stuck if name in _in_phase(pods, "Running")]):
            notes.insert(0, f"{running} of {total} pods run")
        return _report(
            job, phase, code, why, pods=stuck, notes=notes, hints=hints, waits=bool(waiting), stuck=bool(waiting)
        )
    if waiting:
        code, why = _most_common(waiting)
        code = waiting_code(code, why)
        texts = {name: reason.text for name, reason in waiting.items()}
        who = "its pod waits" if total == 1 else f"{len(waiting)} of {total} pods wait"
        summary = f"{who} for the scheduler: {why}" if why else f"{who} for the scheduler"
        return ReasonReport(_key(job), phase, code, summary, texts, notes, hints, waits=True)
    if not _is_admitted(job, facts):
        condition = next((c for group in owned_by(facts.groups, job) for c in unmet(group)), {})
        message = condition.get("message") or "the scheduler has not admitted its pod group yet"
        code = waiting_code(condition.get("reason", ""), message)
        return ReasonReport(_key(job), phase, code, message, notes=notes, waits=True)
    summary = f"{running} of {total} pods run"
    if not pods and phase in ("Pending", ""):
        summary = "its pods are about to be made"
    return _report(job, phase, "", summary, notes=notes)


def waiting_code(reason: str, message: str) -> str:
    """Return a word for a column that says what a job waits for; if for a resource, with its name."""
    found = _RESOURCE.search(message)
    if found and "queue resource quota" in message:
        return f"QueueQuota {found[1]}"
    return f"Insufficient {found[1]}" if found else reason


def unmet(group: Json) -> list[Json]:
    """Return the conditions of a pod group that say why it waits, the newest first."""
    found = [c for c in (group.get("status") or {}).get("conditions") or () if c.get("status") == "True"]
    found = [c for c in found if c.get("type") == "Unschedulable"]
    return sorted(found, key=lambda c: c.get("lastTransitionTime") or "", reverse=True)


def _is_admitted(job: Json, facts: Facts) -> bool:
    return any((group.get("status") or {}).get("phase") not in (None, "", "Pending") for group in _groups(job, facts))


def _groups(job: Json, facts: Facts) -> list[Json]:
    return owned_by(facts.groups, job)


def _dependencies(job: Json, pods: Sequence[Json]) -> list[str]:
    """Name the tasks that have no pods yet because they depend on others."""
    have = Counter(task_of(pod) for pod in pods)
    notes = []
    for task in (job.get("spec") or {}).get("tasks") or ():
        after = (task.get("dependsOn") or {}).get("name") or ()
        if after and not have[task.get("name", "")] and task.get("replicas", 0):
            notes.append(f"task {task.get('name', '')} starts after {', '.join(after)} (dependsOn)")
    return notes


def task_of(pod: Json) -> str:
    """Return the task a pod belongs to."""
    name: str = (pod["metadata"].get("annotations") or {}).get("volcano.sh/task-spec", "")
    return name


# -- shared ------------------------------------------------------------------------------------------------------------


def stated(reasons: Mapping[str, StateReason], total: int) -> tuple[str, str]:
    """Return the code and the sentence that sum up the reasons of an owner's pods, ``total`` in all."""
    if not reasons:
        return "", ""
    texts = Counter((reason.code, reason.text) for reason in reasons.values())
    (code, text), count = texts.most_common(1)[0]
    if total <= 1:
        return code, of_one(text)
    if len(texts) == 1:
        name = next(iter(reasons)) if count == 1 else ""
        if name:
            return code, f"pod {name}{text.removeprefix('it')}" if text.startswith("it ") else f"pod {name}: {text}"
        which = f" ({names_text(list(reasons))})" if len(reasons) < total else ""
        return code, of_many(f"{count} of {total} pods{which}", text)
    often = f"the most frequent ({_count(count, 'pod')})"
    return code, f"{len(reasons)} of {total} pods, for {len(texts)} reasons; {often}: {text}"


def of_one(text: str) -> str:
    """Reword a sentence about a pod ("it …") for an owner that has only this pod ("its pod …")."""
    return f"its pod {text.removeprefix('it ')}" if text.startswith("it ") else text


def of_many(pods: str, text: str) -> str:
    """Reword a sentence about a pod ("it is …") for several pods ("… are …")."""
    for one, many in (("it is ", "are "), ("it was ", "were "), ("it has ", "have "), ("it ", "")):
        if text.startswith(one):
            return f"{pods} {many}{text.removeprefix(one)}"
    return f"{pods}: {text}"


def _most_common(reasons: Mapping[str, StateReason]) -> tuple[str, str]:
    (code, text), _ = Counter((reason.code, reason.text) for reason in reasons.values()).most_common(1)[0]
    return code, text


def creation_refusal(events: Sequence[Json], since: str = "") -> tuple[str, str, list[str]] | None:
    """Return why a job's objects cannot be created, by the newest event: a code, a sentence, hints; None without one.

    Args:
        events: Events about the job.
        since: Time of the newest pod: older events are ignored, since creation succeeded after them.
    """
    found = [event for event in warnings(events) if event.get("reason") in _REFUSED and when(event) >= since[:19]]
    if not found:
        return None
    event = max(found, key=when)
    message = event.get("message", "").strip()
    what = {
        "PodGroupError": "its pod group",
        "PVCError": "its claims",
        "PluginError": "what its plugins need",
        "TrainJobResourcesCreationFailed": "what it is made of",
    }
    text = f"{what.get(event['reason'], _PODS)} cannot be made: {_plain(message)}"
    code, hints = _classified(message)
    return code or event["reason"], text, hints


def _classified(message: str) -> tuple[str, list[str]]:
    """Return the code and the hints of a refusal by its message; "" for an unknown one."""
    for form, word, hint in _REFUSALS:
        matched = form.search(message)
        if matched:
            named = matched[1] if matched.groups() and matched[1] else "it"
            return word, [hint.format(named)] if hint else []
    return "", []


def _plain(message: str) -> str:
    """Return an event's message without the beginning that repeats the event's reason."""
    for begin in ("Error creating pods: ", "Error creating: ", "Failed to create PVC, err: "):
        message = message.removeprefix(begin)
    return message


def run_hints(obj: Json, reasons: Sequence[StateReason], logs: str) -> list[str]:
    """Return the reasons' hints, and the command that prints the logs if these may say more."""
    hints = list(dict.fromkeys(reason.hint for reason in reasons if reason.hint))
    if any(reason.code.startswith(("exit code", "SIG", "CrashLoop")) for reason in reasons):
        hints.append(f"{logs}{_namespace(obj)}")
    return hints


def _hints(job: Json, reasons: Mapping[str, StateReason]) -> list[str]:
    several = " --all-tasks" if len((job.get("spec") or {}).get("tasks") or ()) > 1 else ""
    return run_hints(job, list(reasons.values()), f"strato job logs {job['metadata']['name']}{several}")


def _report(
    job: Json,
    phase: str,
    code: str,
    summary: str,
    *,
    pods: Mapping[str, StateReason] | None = None,
    notes: Sequence[str] = (),
    hints: Sequence[str] = (),
    waits: bool = False,
    stuck: bool = False,
) -> ReasonReport:
    texts = {name: reason.text for name, reason in (pods or {}).items()}
    return ReasonReport(_key(job), phase, code, summary, texts, notes, hints, waits, stuck)


def _key(job: Json) -> str:
    return f"job {job['metadata'].get('namespace') or 'default'}/{job['metadata']['name']}"


def _namespace(obj: Json) -> str:
    namespace = obj["metadata"].get("namespace") or "default"
    return "" if namespace == "default" else f" -n {namespace}"


def phase_of(job: Json) -> str:
    """Return a job's phase; Pending if its controller has not set one yet."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def replicas(job: Json) -> int:
    """Return how many pods a job is to have."""
    return sum(task.get("replicas", 0) for task in (job.get("spec") or {}).get("tasks") or ())


def _in_phase(pods: Sequence[Json], phase: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods if (pod.get("status") or {}).get("phase") == phase]


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"
