"""Roles: names in a hierarchy, ``a/b`` below ``a``. `*` is the role of unreserved resources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

UNRESERVED = "*"
"""The default role, which marks unreserved resources."""

LONGEST = 4096
"""Longest role in characters. Mesos sets no bound; longer ones are treated as an attack."""

_WHITESPACE = re.compile(r"[\t\n\v\f\r \x7f]")


def problem_of(role: str) -> str | None:
    """Return the problem of a role's name, in Mesos' words, or None."""
    if role == UNRESERVED:
        return None
    if not role:
        return "Role names cannot be the empty string"
    if len(role) > LONGEST:
        return f"Role name of {len(role)} characters is longer than {LONGEST}"
    if role.startswith("/"):
        return f"Role '{role}' cannot start with a slash"
    if role.endswith("/"):
        return f"Role '{role}' cannot end with a slash"
    if "//" in role:
        return f"Role '{role}' cannot contain two adjacent slashes"
    for component in role.split("/"):
        if component in {".", "..", UNRESERVED}:
            return f"Role '{role}' cannot include '{component}' as a component"
        if component.startswith("-"):
            return f"Role component '{component}' is invalid because it starts with a dash"
        if _WHITESPACE.search(component):
            return f"Role component '{component}' is invalid because it contains backspace or whitespace"
    return None


def problem_among(roles: Iterable[str]) -> str | None:
    """Return the problem of the first invalid role, or None."""
    return next(filter(None, map(problem_of, roles)), None)


def parse_list(text: str) -> list[str]:
    """Return the roles of a text like ``a,b``; empty entries are left out.

    Raises:
        ValueError: A role is invalid; the message is Mesos'.
    """
    roles = [role for role in text.split(",") if role]
    if problem := problem_among(roles):
        raise ValueError(problem)
    return roles


def is_subrole(role: str, ancestor: str) -> bool:
    """Whether ``role`` is strictly below ``ancestor``."""
    return len(role) > len(ancestor) and role.startswith(ancestor) and role[len(ancestor)] == "/"


def ancestors(role: str) -> Iterator[str]:
    """Yield the roles above one, the nearest first: of ``a/b/c`` these are ``a/b`` and ``a``."""
    while "/" in role:
        role = role.rpartition("/")[0]
        yield role


def top_level(role: str) -> str:
    """Return the role's first component, the top-level role, for which quotas are set."""
    return role.partition("/")[0]
