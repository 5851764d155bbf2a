"""How many applications run at a time: limits per queue, on every queue above, and per user (spec yarn A6).

Applications over a limit wait: they have demand but no share. When one ends, those that waited longest may start.
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
    """Return which limit keeps one more application of a user waiting: a queue's full name, ``user``, or nothing."""
    if running.get(user, 0) >= most_of(user):
        return "user"
    return next((q.name for q in queue.lineage() if q.runnable_count >= q.settings.max_apps), "")


def lists_after_removal(
    queue: FairQueue, user: str, running: Running, most_of: MaxOfUser, waiting_of_user: Sequence[FairApp]
) -> list[list[FairApp]]:
    """Return lists of applications that may start now that one has left; as many may start as there are lists.

    Args:
        queue: The leaf it was in; counts are those without it.
        user: Whose it was.
        running: Runnable applications by user, without it.
        most_of: Limits of users.
        waiting_of_user: The user's waiting applications, by start time; counts as a list even when there are none.
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
    """Add the waiting applications of every leaf below a queue that may run more."""
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
    """Yield what is in several lists, each in order, the earliest first; of equals the one in the earlier list."""
    return merge(*lists, key=lambda one: one.start_time)
