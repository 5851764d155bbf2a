"""Access lists of queues, as in YARN: who may submit to a queue, and who may administer other users' objects in it.

A list is text: users, a blank, groups, both separated by commas; ``*`` is everybody, a blank nobody (spec yarn A1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strato.api.wire import User

SUBMIT: Final = "strato.dev/acl-submit"
"""Annotation of a Queue: who may submit to it."""
ADMINISTER: Final = "strato.dev/acl-administer"
"""Annotation of a Queue: who may change and delete what others submitted to it, and the queue itself."""
SUBMITTED_BY: Final = "strato.dev/submitted-by"
"""Annotation of an object that was submitted to a queue with a list: the user who submitted it."""

ANY_USER: Final = "*"
_MOST_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class AccessList:
    """The users and groups of a list."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    any_user: bool = False

    def admits(self, user: User) -> bool:
        """Whether the list names the user, one of the user's groups or everybody."""
        return self.any_user or user.name in self.users or not self.groups.isdisjoint(user.groups)


def parse(text: str) -> AccessList:
    """Read a list; `problem` returns why a text is no list."""
    if text.strip() == ANY_USER:
        return AccessList(any_user=True)
    users, _, groups = text.partition(" ")
    return AccessList(_names(users), _names(groups))


def problem(text: str) -> str:
    """Return why the text is no list; empty if it is one."""
    if len(text) > _MOST_BYTES:
        return f"has {len(text)} characters; a list has at most {_MOST_BYTES}"
    if any(ord(character) < ord(" ") for character in text):
        return f"{text[:80]!r} has control characters; write users, a blank, groups: 'alice,bob research,ops'"
    if text.strip() == ANY_USER:
        return ""
    if ANY_USER in {*_names(text.partition(" ")[0]), *_names(text.partition(" ")[2])}:
        return f"{text[:80]!r} names {ANY_USER} beside others; everybody is {ANY_USER!r} alone"
    if " " in text.partition(" ")[2].strip():
        return f"{text[:80]!r} has more than two parts; write users, a blank, groups: 'alice,bob research,ops'"
    return ""


def _names(text: str) -> frozenset[str]:
    return frozenset(name for part in text.split(",") if (name := part.strip()))
