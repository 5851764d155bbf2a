"""How many applications run at a time: limits per queue, on every queue above, and per user (spec yarn A6).

Applications over a limit wait: they have demand but no share. When an application ends, waiting ones may start, the
earliest submitted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from typing import Protocol, TypeVar

from strato.interop.yarn.fair.tree import FairApp, FairQueue

MaxOfUser = Callable[[str], int]
"""Returns how many applications of a user may run."""

Running = Mapping[str, int]
"""Runnable applications by user."""


def binding_limit(queue: FairQueue, user: str, running: Running, most_of: MaxOfUser) -> str:
    """Return the limit that keeps a user's next application waiting: a queue's full name, ``user``, or ""."""
    if running.get(user, 0) >= most_of(user):
        return "user"
    return next((q.name for q in queue.lineage() if q.runnable_count >= q.settings.max_apps), "")


def lists_after_removal(
    queue: FairQueue, user: str, running: Running, most_of: MaxOfUser, waiting_of_user: Sequence[FairApp]
) -> list[list[FairApp]]:
    """Return lists of applications that may start after one has left; at most as many as there are lists may start.

    Args:
        queue: The leaf that it has left; counts do not include it.
        user: Its user.
        running: Runnable applications by user, without it.
        most_of: Limits of users.
        waiting_of_user: The user's waiting applications, by start time; a list counts even if it is empty.
    """
    highest = None
    for above in queue.lineage():
        if above.runnable_count == above.settings.max_apps - 1:
            highest = above
    lists: list[list[FairApp]] = []
    if highest is not None:
        gather(highest, lists)
    if running.get(user, 0) == most_of(user) - 1:
        lists.append(list(waiting_of_user))
    return lists


def gather(queue: FairQueue, lists: list[list[FairApp]]) -> None:
    """Append the waiting applications of each leaf at or below a queue, if limits let the leaf run more."""
    stack = [queue]
    while stack:
        one = stack.pop()
        if one.runnable_count >= one.settings.max_apps:
            continue
        if one.is_leaf:
            lists.append(list(one.waiting))
        else:
            stack += reversed(one.children)


class _Started(Protocol):
    @property
    def start_time(self) -> float: ...


_S = TypeVar("_S", bound=_Started)


def by_start_time(lists: Sequence[Sequence[_S]]) -> Iterable[_S]:
    """Merge ordered lists by start time, the earliest first; ties go to the earlier list."""
    return merge(*lists, key=lambda one: one.start_time)
