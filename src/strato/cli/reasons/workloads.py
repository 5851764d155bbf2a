"""Why pods, jobs, cron jobs, job flows, workloads of apps/v1 and pod groups are as they are; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from strato.api.volcano.scheduling import GROUP_ANNOTATION
from strato.cli.reasons.crons import cron_report
from strato.cli.reasons.facts import Facts, owned_by
from strato.cli.reasons.jobs import creation_refusal, job_report, run_hints, stated, unmet
from strato.cli.reasons.pods import warnings, when
from strato.cli.reasons.report import ReasonReport
from strato.client.cluster import Json


def report_of(obj: Json, facts: Facts) -> ReasonReport:
    """Return why an object is as it is.

    Args:
        obj: A pod, a job or cron job of either kind, a pod group, a job flow or a workload of apps/v1, with its kind.
        facts: The objects that belong to it.
    """
    match obj.get("kind"):
        case "Pod":
            return pod_report(obj, facts)
        case "Job" if obj.get("apiVersion", "").startswith("batch/"):
            return batch_job_report(obj, facts)
        case "Job":
            return job_report(obj, facts)
        case "PodGroup":
            return group_report(obj, facts)
        case "JobFlow":
            return flow_report(obj, facts)
        case "CronJob":
            return cron_report(obj, facts, report_of)
    if str(obj.get("apiVersion")).startswith(("kubeflow.org/", "trainer.kubeflow.org/")):
        return training_report(obj, facts)
    return workload_report(obj, facts)


def training_report(job: Json, facts: Facts) -> ReasonReport:
    """Return why a training job is as it is: what ended or suspended it, else its PodGroup, else its pods."""
    pods, groups = facts.pods_of(job, *owned_by(facts.jobs, job)), owned_by(facts.groups, job)
    status = job.get("status") or {}
    true = [one for one in status.get("conditions") or () if one.get("status") == "True"]
    runs = any(one.get("active") for one in status.get("jobsStatus") or ())  # a TrainJob has no such condition
    state = true[-1].get("type", "") if true else "Running" if runs else "Pending"
    if state in ("Failed", "Succeeded", "Complete", "Suspended"):
        stuck = {name: reason for name, reason in facts.reasons_of(pods).items() if reason.code and not reason.waits}
        why = stated(stuck, len(pods))[1] if stuck else ""
        code = "" if state in ("Succeeded", "Complete") else true[-1].get("reason", "")
        texts = {name: reason.text for name, reason in stuck.items()}
        return ReasonReport(_key(job), state, code, _and(true[-1].get("message", ""), why), texts)
    refusal = creation_refusal(facts.events_of(job))
    if refusal is not None and not pods:
        return ReasonReport(_key(job), state, refusal[0], refusal[1], hints=refusal[2])
    if not pods and groups:
        return replace(group_report(groups[0], facts), key=_key(job), state=state)
    return _of_pods(job, pods, facts, state)


def pod_report(pod: Json, facts: Facts) -> ReasonReport:
    """Return why a pod is as it is."""
    name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase") or "Pending"
    reason = facts.reasons_of([pod]).get(name)
    if reason is None:
        node = (pod.get("spec") or {}).get("nodeName", "")
        texts = {"Succeeded": "it has succeeded", "Running": f"it is on node {node}"}
        return ReasonReport(_key(pod), phase, "", texts.get(phase, f"it is on node {node}, which is starting it"))
    hints = run_hints(pod, [reason], f"strato logs {name}")
    return ReasonReport(_key(pod), phase, reason.code, reason.text, hints=hints, waits=reason.waits)


def batch_job_report(job: Json, facts: Facts) -> ReasonReport:
    """Return why a job of batch/v1 is as it is."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    pods = facts.pods_of(job)
    reasons = {name: reason for name, reason in facts.reasons_of(pods).items() if reason.code or reason.waits}
    stuck = {name: reason for name, reason in reasons.items() if not reason.waits}
    texts = {name: reason.text for name, reason in reasons.items()}
    hints = run_hints(job, list(stuck.values()), f"strato kubectl logs job/{job['metadata']['name']}")
    code, why = stated(stuck, len(pods))
    true = {c.get("type"): c for c in status.get("conditions") or () if c.get("status") == "True"}
    ended = true.get("Failed") or true.get("FailureTarget")
    if ended:
        text = f"{ended.get('reason', '')}: {ended.get('message', '')}"
        return ReasonReport(_key(job), "Failed", code or ended.get("reason", ""), _and(text, why), texts, hints=hints)
    if "Complete" in true:
        return ReasonReport(_key(job), "Complete", "", _and(f"{status.get('succeeded', 0)} pods succeeded", why), texts)
    if spec.get("suspend"):
        patch = f'strato kubectl patch job {job["metadata"]["name"]} -p \'{{"spec":{{"suspend":false}}}}\''
        return ReasonReport(_key(job), "Suspended", "suspended", "it is suspended: spec.suspend is true", hints=[patch])
    refusal = creation_refusal(facts.events_of(job))
    if refusal is not None and len(pods) < (spec.get("parallelism") or 1):
        return ReasonReport(_key(job), "Pending", refusal[0], refusal[1], texts, hints=[*refusal[2], *hints])
    return _of_pods(job, pods, facts, "Running" if status.get("active") else "Pending")


def workload_report(obj: Json, facts: Facts) -> ReasonReport:
    """Return why a Deployment, ReplicaSet, StatefulSet or DaemonSet is as it is."""
    sets = owned_by(facts.replica_sets, obj)
    pods, spec = facts.pods_of(obj, *sets), obj.get("spec") or {}
    ready = (obj.get("status") or {}).get("readyReplicas", (obj.get("status") or {}).get("numberReady", 0))
    wanted = spec.get("replicas", (obj.get("status") or {}).get("desiredNumberScheduled", 1))
    events = [event for one in (obj, *sets) for event in facts.events_of(one)]
    refusal = creation_refusal(events) if len(pods) < wanted else None
    if refusal is not None:
        code, why, hints = refusal
        return ReasonReport(_key(obj), f"{ready} of {wanted} ready", code, why, hints=hints)
    if not wanted:
        return ReasonReport(_key(obj), "0 wanted", "", "it is scaled to 0")
    return _of_pods(obj, pods, facts, f"{ready} of {wanted} ready")


def group_report(group: Json, facts: Facts) -> ReasonReport:
    """Return why a pod group is as it is; for the group of a job, the job's report."""
    owner = next(iter(owned_by_job(group, facts.jobs)), None)
    if owner is not None:
        return report_of(owner, facts)
    name, phase = group["metadata"]["name"], (group.get("status") or {}).get("phase") or "Pending"
    pods = [p for p in facts.pods if (p["metadata"].get("annotations") or {}).get(GROUP_ANNOTATION) == name]
    condition = next(iter(unmet(group)), None)
    if phase in ("Pending", "Inqueue") and not facts.reasons_of(pods):
        text = condition["message"] if condition else "the scheduler has not looked at it yet"
        return ReasonReport(_key(group), phase, (condition or {}).get("reason", ""), text, waits=True)
    return _of_pods(group, pods, facts, phase)


def owned_by_job(obj: Json, jobs: Sequence[Json]) -> list[Json]:
    """Return the jobs that own an object."""
    return [job for job in jobs if owned_by([obj], job)]


def flow_report(flow: Json, facts: Facts) -> ReasonReport:
    """Return why a job flow is as it is: the jobs of its steps that are not as they should be."""
    status = flow.get("status") or {}
    phase = (status.get("state") or {}).get("phase") or "Pending"
    jobs = owned_by(facts.jobs, flow)
    reports = {job["metadata"]["name"]: job_report(job, facts) for job in jobs}
    bad = {name: report for name, report in reports.items() if report.code}
    notes = [f"{report.key} ({report.state}): {report.summary}" for report in bad.values()]
    held = {step.get("name"): step.get("message", "") for step in status.get("waitingSteps") or ()}
    notes += [f"step {name} waits: {message}" for name, message in held.items()]
    for step in (flow.get("spec") or {}).get("flows") or ():
        after = ((step.get("dependsOn") or {}).get("targets")) or ()
        if after and step.get("name") not in held and f"{flow['metadata']['name']}-{step.get('name')}" not in reports:
            notes.append(f"step {step.get('name')} has no job yet; it starts after {', '.join(after)}")
    hints = list(dict.fromkeys(hint for report in bad.values() for hint in report.hints))
    failures = [event for event in warnings(facts.events_of(flow)) if phase not in ("Succeed", "Failed")]
    if not bad and failures and not jobs:
        event = max(failures, key=when)
        return ReasonReport(_key(flow), phase, event.get("reason", ""), event.get("message", "").strip(), notes=notes)
    if not bad:
        text = f"nothing is wrong with its {len(jobs)} jobs" if jobs else "it has no jobs"
        if held and all(report.state == "Completed" for report in reports.values()):
            return ReasonReport(_key(flow), phase, "", notes[0], notes=notes[1:])
        return ReasonReport(_key(flow), phase, "", text, notes=notes)
    first = next(iter(bad.values()))
    more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
    summary = f"{first.key} is {first.state}: {first.summary}{more}"
    return ReasonReport(_key(flow), phase, first.code, summary, notes=notes if len(bad) > 1 else notes[1:], hints=hints)


def _of_pods(obj: Json, pods: Sequence[Json], facts: Facts, state: str) -> ReasonReport:
    reasons = facts.reasons_of(pods)
    stuck = {name: reason for name, reason in reasons.items() if reason.code and not reason.waits}
    waiting = {name: reason for name, reason in reasons.items() if reason.waits}
    hints = run_hints(obj, list(stuck.values()), f"strato logs {next(iter(stuck), '')}")
    texts = {name: reason.text for name, reason in (stuck or waiting).items()}
    if stuck:
        code, why = stated(stuck, len(pods))
        return ReasonReport(_key(obj), state, code, why, texts, hints=hints, waits=bool(waiting), stuck=bool(waiting))
    if waiting:
        code, why = stated(waiting, len(pods))
        return ReasonReport(_key(obj), state, code, f"waits for the scheduler: {why}", texts, waits=True)
    return ReasonReport(
        _key(obj), state, "", f"nothing is wrong with its {len(pods)} pods" if pods else "it has no pods"
    )


def _and(text: str, why: str) -> str:
    return f"{text.strip(': ')}; {why}" if why else text.strip(": ")


def _key(obj: Json) -> str:
    return f"{obj['kind'].lower()} {obj['metadata'].get('namespace') or 'default'}/{obj['metadata']['name']}"
