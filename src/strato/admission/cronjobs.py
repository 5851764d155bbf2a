"""CronJob admission (spec volcano-api 20)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from strato.admission.request import AdmissionReader, AdmissionRequest, Denied
from strato.api import names
from strato.units import duration_seconds

WEBHOOK = "validatecronjob.volcano.sh"
NAME_MAX = 52
"""63 less the eleven characters of the suffix that names a run."""

DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})

_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")
_ANY_INSTANT = datetime(2024, 1, 1, tzinfo=UTC)


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Check schedule, time zone and name; the embedded job is checked when it is made."""
    assert request.object is not None
    spec = request.object.get("spec") or {}
    problems: list[str] = []
    if problem := schedule_problem(spec.get("schedule") or ""):
        problems.append(problem)
    zone = spec.get("timeZone")
    if zone is not None and (problem := time_zone_problem(zone)):
        problems.append(problem)
    name = request.name
    if len(name) > NAME_MAX:
        problems.append(
            f"cronJob name must be no more than {NAME_MAX} characters to accommodate job name suffix (max 63 total)"
        )
    if complaints := names.check_qualified_name(name):
        problems.append(f'invalid cronJob name "{name}": {"; ".join(complaints)}')
    if problems:
        raise Denied(WEBHOOK, "; ".join(problems))


def schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule, or ""."""
    invalid = f"schedule is not a valid cron expression: {schedule}: "
    if not schedule:
        return "schedule is required, but got empty"
    if "TZ" in schedule:
        return "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    if schedule.startswith("@"):
        if schedule in DESCRIPTORS:
            return ""
        if schedule.startswith("@every "):
            try:
                duration_seconds(schedule.removeprefix("@every "))
            except ValueError as err:
                return f"{invalid}{err}"
            return ""
        return f"{invalid}unrecognized descriptor"
    if len(schedule.split()) != 5:
        return f"{invalid}expected exactly 5 fields, found {len(schedule.split())}"
    try:
        CronSim(schedule.replace("?", "*"), _ANY_INSTANT)
    except CronSimError as err:
        return f"{invalid}{err}"
    return ""


def time_zone_problem(zone: str) -> str:
    """Return what is wrong with a time zone, or ""."""
    if not zone:
        return "timeZone must be nil or non-empty string, got empty string"
    for part in zone.split("/"):
        if _ZONE_PART.fullmatch(part) is None or part in (".", "..") or part.startswith("-"):
            return f"unknown timeZone {zone}"
    if zone.lower() == "local":
        return "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"invalid timeZone {zone}: unknown time zone"
    return ""
