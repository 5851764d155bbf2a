"""Validate FrameworkInfos with Mesos' messages, and decide which fields a later subscription may change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from strato.api.meta import Json
from strato.interop.mesos import roles
from strato.interop.mesos.quantities import to_millis

_LONGEST_FAILOVER_SECONDS = (1 << 63) / 1e9
"""Longest failover timeout: 64 bits of nanoseconds."""
_IMMUTABLE = ("user", "checkpoint")


def problem_of_info(info: Json, allowed_roles: Collection[str], *, root_allowed: bool = True) -> str | None:
    """Return the problem of a FrameworkInfo, or None.

    Args:
        info: The FrameworkInfo as received; ``user`` and ``name`` must be present.
        allowed_roles: The only roles allowed; empty allows all.
        root_allowed: Whether tasks may run as root.
    """
    multi = any(given.get("type") == "MULTI_ROLE" for given in info.get("capabilities", ()))
    return (
        (_problem_of_roles(info) if multi else _problem_of_role(info))
        or _problem_of_whitelist(subscribed_roles(info, multi=multi), allowed_roles)
        or _problem_of_user(info, root_allowed=root_allowed)
        or _problem_of_timeout(info.get("failover_timeout", 0.0))
        or _problem_of_filters(info)
    )


def subscribed_roles(info: Json, *, multi: bool) -> tuple[str, ...]:
    """Return the roles that a framework is subscribed to."""
    return tuple(info.get("roles", ())) if multi else (info.get("role", roles.UNRESERVED),)


def _problem_of_roles(info: Json) -> str | None:
    if "role" in info:
        return "'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable"
    given: Sequence[str] = info.get("roles", ())
    twice = sorted(role for role, count in Counter(given).items() if count > 1)
    if twice:
        return f"'FrameworkInfo.roles' contains duplicate items: {', '.join(twice)}"
    problem = roles.problem_among(given)
    return f"'FrameworkInfo.roles' contains invalid role: {problem}" if problem else None


def _problem_of_role(info: Json) -> str | None:
    if info.get("roles"):
        return "'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable"
    problem = roles.problem_of(info.get("role", roles.UNRESERVED))
    return f"'FrameworkInfo.role' is not a valid role: {problem}" if problem else None


def _problem_of_whitelist(given: Sequence[str], allowed: Collection[str]) -> str | None:
    missing = [role for role in given if allowed and role not in allowed and role != roles.UNRESERVED]
    return f"Roles {braced(missing)} are not present in the master's --roles" if missing else None


def _problem_of_user(info: Json, *, root_allowed: bool) -> str | None:
    if info["user"] == "root" and not root_allowed:
        return "User 'root' is not allowed to run frameworks without --root_submissions set"
    return None


def _problem_of_timeout(seconds: float) -> str | None:
    if abs(seconds) >= _LONGEST_FAILOVER_SECONDS:
        return f"The framework failover_timeout ({seconds}) is invalid"
    return None


def _problem_of_filters(info: Json) -> str | None:
    for role, filters in info.get("offer_filters", {}).items():
        problem = roles.problem_of(role)
        if problem:
            return f"'FrameworkInfo.offer_filters' contains invalid role: {problem}"
        minimum = filters.get("min_allocatable_resources")
        for wanted in (minimum or {}).get("quantities", ()):
            amounts = wanted.get("quantities", {})
            if not amounts:
                return "Resource quantities must contain at least one quantity"
            for name, amount in amounts.items():
                try:
                    to_millis(amount.get("value", 0))
                except ValueError as error:
                    return f"Invalid minimum of '{name}' in 'FrameworkInfo.offer_filters': {error}"
    return None


def problem_of_suppressed(suppressed: Collection[str], subscribed: Collection[str]) -> str | None:
    """Return the problem of suppressed roles, or None."""
    foreign = [role for role in suppressed if role not in subscribed]
    return f"Suppressed roles {braced(foreign)} are not contained in the set of roles" if foreign else None


def problem_of_change(old: Json, new: Json) -> str | None:
    """Return the problem of an UPDATE_FRAMEWORK that changes fixed fields, or None; subscriptions ignore these."""
    for name in _IMMUTABLE:
        if old.get(name, False) != new.get(name, False):
            return f"Updating 'FrameworkInfo.{name}' is unsupported; it is {old.get(name, False)!r}"
    return None


def changed(old: Json, new: Json) -> Json:
    """Return a framework's info after a new subscription, which replaces all but user, checkpoint and principal."""
    kept = {name: old[name] for name in (*_IMMUTABLE, "id", "principal") if name in old}
    return {**{name: value for name, value in new.items() if name not in _IMMUTABLE}, **kept}


def braced(items: Collection[str]) -> str:
    """Return names in braces, as Mesos lists sets."""
    return "{ " + ", ".join(sorted(items)) + " }"
