"""Why a cron job creates no job, and how the jobs it created fare; pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from strato.cli.reasons.facts import Facts, owned_by
from strato.cli.reasons.pods import warnings, when
from strato.cli.reasons.report import ReasonReport
from strato.client.cluster import Json
from strato.clock import format_time
from strato.controllers.cron.schedule import InvalidSchedule, InvalidTimeZone, Schedule, find_zone, names_its_zone

_ENDED = frozenset({"Complete", "Completed", "Failed", "Terminated", "Aborted"})


def cron_report(cron: Json, facts: Facts, report_of: Callable[[Json, Facts], ReasonReport]) -> ReasonReport:
    """Return why a cron job of either kind is as it is.

    Args:
        cron: The cron job.
        facts: Its jobs with their pods, pod groups and events.
        report_of: Returns the report on a job.
    """
    meta, spec, status = cron["metadata"], cron.get("spec") or {}, cron.get("status") or {}
    jobs = sorted(owned_by(facts.jobs, cron), key=lambda job: str(job["metadata"].get("creationTimestamp") or ""))
    reports = [report_of(job, facts) for job in jobs]
    running = [report for report in reports if report.state not in _ENDED]
    bad = next((report for report in [*reports[-1:], *running] if report.code), None)
    last = status.get("lastScheduleTime")
    so_far = f"its last job was due at {last}" if last else "it has made no job yet"
    say = partial(
        ReasonReport,
        f"cronjob {meta.get('namespace') or 'default'}/{meta['name']}",
        f"{len(running)} running" if running else "Suspended" if spec.get("suspend") else "Waiting",
        notes=[f"{bad.key} ({bad.state}): {bad.summary}"] if bad is not None else [],
    )
    hints = bad.hints if bad is not None else []
    if spec.get("suspend"):
        resource = "cronjob" if cron["apiVersion"] == "batch/v1" else "cronjobs.batch.volcano.sh"
        patch = f'strato kubectl patch {resource} {meta["name"]} --type merge -p \'{{"spec":{{"suspend":false}}}}\''
        return say("suspended", f"it is suspended: spec.suspend is true; {so_far}", hints=[patch, *hints])
    try:
        following = _following(str(spec.get("schedule", "")), spec.get("timeZone"), facts.now)
    except (InvalidSchedule, InvalidTimeZone) as error:
        return say(type(error).__name__, f"it never makes a job: {error}", hints=hints)
    refusals = [event for event in warnings(facts.events_of(cron)) if when(event) > str(last or "")[:19]]
    if refusals:
        event = max(refusals, key=when)
        return say(event.get("reason", ""), f"{event.get('message', '').strip()}; {so_far}{following}", hints=hints)
    return say(bad.code if bad is not None else "", so_far + following, hints=hints)


def _following(schedule: str, zone: str | None, now: float | None) -> str:
    """Say when the next job is due; nothing for objects from files, which have no current time."""
    times = Schedule(schedule, find_zone(None if names_its_zone(schedule) else zone))
    return "" if now is None else f", the next one is at {format_time(times.next_after(now))}"
