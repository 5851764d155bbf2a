"""Rules of lifecycle policies (spec volcano-api 16.4)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.admission.request import Json
from strato.api.crds.jobrules import ACTIONS, EVENTS


def policy_problem(policies: Sequence[Json]) -> str:
    """Return what is wrong with a list of policies (the first thing), or ""."""
    problem = _first_problem(policies)
    if not problem:
        return ""
    return f"{problem} valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"


def _first_problem(policies: Sequence[Json]) -> str:
    events_seen: set[str] = set()
    codes_seen: set[int] = set()
    for policy in policies:
        events = _events(policy)
        code = policy.get("exitCode")
        if events and code is not None:
            return "must not specify event and exitCode simultaneously"
        if not events and code is None:
            return "either event and exitCode should be specified"
        if events:
            problem = _event_problem(events, policy.get("action") or "", events_seen)
            if problem:
                return problem
            events_seen.update(events)
        elif code is not None:
            if code == 0:
                return "0 is not a valid error code"
            if code in codes_seen:
                return f"duplicate exitCode {code}"
            codes_seen.add(code)
    if "*" in events_seen and len(events_seen) > 1:
        return "if there's * here, no other policy should be here"
    return ""


def _events(policy: Json) -> list[str]:
    """Return the union of ``event`` and ``events``, in order."""
    named = [policy["event"]] if policy.get("event") else []
    return list(dict.fromkeys([*named, *(policy.get("events") or ())]))


def _event_problem(events: Sequence[str], action: str, seen: set[str]) -> str:
    for event in events:
        if event not in EVENTS:
            return f"invalid policy event: {event}"
        if action not in ACTIONS:
            return f"invalid policy action: {action}"
        if event in seen:
            return f"duplicate event {event}  across different policy"
    return ""
