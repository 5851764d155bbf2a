"""`Line`: the jobs of one queue in the order of their turns, where one of each crowd stands for those like it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from strato.scheduler.model.jobs import Job
from strato.scheduler.ordering.backlog import Crowd, Room, Waiter, account_of

if TYPE_CHECKING:
    from strato.scheduler.session import Session


class _Stander(NamedTuple):
    """A crowd in a line; ``key`` is what plugins say of the order of any of its jobs."""

    crowd: Crowd
    key: tuple[Any, ...]


class Place(NamedTuple):
    """A job whose turn it is; ``number`` keeps equal keys apart."""

    key: tuple[Any, ...]
    number: int
    job: Job
    waiter: Waiter | None
    stander: _Stander | None


class Line:
    """The jobs of one queue.

    Args:
        ssn: The session, which orders.
        room: Where the jobs are kept between cycles; None when nothing is.
    """

    def __init__(self, ssn: Session, room: Room | None) -> None:
        self._ssn = ssn
        self._room = room
        self._heap: list[Place] = []
        self._made = 0
        self._high: tuple[Any, ...] | None = None  # the last place in the order whose turn it was
        self._refused: list[_Stander] = []  # whose jobs need not be asked until something moves
        self._stamp = (-1, -1)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, job: Job, key: tuple[Any, ...]) -> None:
        """Let a job stand in line; ``key`` is what plugins say of its order. `start` before the first turn."""
        self._made += 1
        self._heap.append(Place((*key, job.created, job.key), self._made, job, None, None))

    def join(self, crowd: Crowd) -> None:
        """Let the first of a crowd stand in line; `start` before the first turn."""
        assert self._room is not None
        self._room.quiet += crowd.pods
        first = crowd.waiters[0]
        key = self._ssn.job_plugin_key(first.job)
        self._made += 1
        self._heap.append(Place((*key, *first.order), self._made, first.job, first, _Stander(crowd, key)))

    def start(self) -> None:
        """Put those who stand in line in order."""
        heapify(self._heap)

    def pop(self) -> Place | None:
        """Return whose turn it is; None when nobody is left."""
        while self._heap:
            place = heappop(self._heap)
            if self._high is None or self._high < place.key:
                self._high = place.key
            waiter = place.waiter
            if waiter is not None and self._room is not None:
                if waiter.turn == self._room.turn:
                    continue  # it stood here twice
                waiter.turn = self._room.turn
                self._room.quiet -= waiter.pods
            self._stamp = self._now()
            return place
        return None

    def visited(self, place: Place, *, again: bool) -> bool:
        """Note that a job had its turn, and whether it wants another; return whether anything moved."""
        moved = self._stamp != self._now()
        if again:
            self._made += 1
            heappush(self._heap, Place(self._ssn.job_key(place.job), self._made, place.job, None, None))
        if self._room is None:
            return moved
        if moved or again:
            if place.waiter is not None:
                place.waiter.crowd.tell(place.waiter, None)
            standers = [place.stander] if place.stander is not None else []
            if moved:
                standers += self._refused
                self._refused = []
            for stander in standers:
                self._stand(stander)
            return moved
        notes = self._ssn.notes.get(place.job.key)
        if notes is None:
            return False
        account = account_of(notes)
        if place.waiter is None:
            if place.job.key in self._room.loose:  # an action before this one may have tried it
                told = None if self._ssn.nearly_placed(place.job) else account
                self._room.refused(self._ssn.world, place.job, told)
            return False
        place.waiter.crowd.tell(place.waiter, account)
        place.waiter.crowd.hear(self._room.turn, account, place.job, notes)
        if place.stander is not None:
            self._refused.append(place.stander)
            for waiter in place.stander.crowd.to_tell(account):
                key = (*place.stander.key, *waiter.order)
                if waiter.turn != self._room.turn and place.key < key:
                    self._push(key, waiter, None)
        return False

    def may_close_ranks(self, place: Place) -> bool:
        """Whether those behind a job may have their turns with it: nobody waits for anything to move, to be asked."""
        return place.waiter is None and not self._refused and bool(self._heap)

    def take_while(self, likes: Callable[[Job], bool], most: int) -> list[Place]:
        """Take out those who are next, as long as they stand for themselves and are as asked for."""
        taken: list[Place] = []
        heap = self._heap
        while heap and len(taken) < most and heap[0].waiter is None and likes(heap[0].job):
            taken.append(heappop(heap))
        return taken

    def put_back(self, places: Sequence[Place]) -> None:
        """Let those who were taken out stand in line again."""
        for place in places:
            heappush(self._heap, place)

    def had_turns(self, last: Place) -> None:
        """Note that all up to one who was taken out were placed."""
        if self._high is None or self._high < last.key:
            self._high = last.key

    def turn_down(self, say: Callable[[Job], None]) -> None:
        """Say something to everybody who is left, without a turn."""
        while (place := self.pop()) is not None:
            say(place.job)
            self.visited(place, again=False)

    def _now(self) -> tuple[int, int]:
        return self._ssn.world.version, len(self._ssn.plan.failures)

    def _stand(self, stander: _Stander) -> None:
        """Let the next of a crowd stand in line."""
        assert self._room is not None
        waiters = stander.crowd.waiters
        high: Any = self._high  # a place whose turn it was brought us here
        at = bisect_right(waiters, high, key=lambda waiter: (*stander.key, *waiter.order))
        while at < len(waiters) and waiters[at].turn == self._room.turn:
            at += 1
        if at < len(waiters):
            self._push((*stander.key, *waiters[at].order), waiters[at], stander)

    def _push(self, key: tuple[Any, ...], waiter: Waiter, stander: _Stander | None) -> None:
        self._made += 1
        heappush(self._heap, Place(key, self._made, waiter.job, waiter, stander))


def lines_of(ssn: Session, room: Room | None, jobs: list[Job]) -> dict[str, Line]:
    """Begin a turn: return by queue who stands in line, some jobs of known queues and the crowds of a room."""
    lines: dict[str, Line] = {}
    if room is not None:
        room.begin()
    for job, key in zip(jobs, ssn.job_plugin_keys(jobs), strict=True):
        line = lines.get(job.queue_name)
        if line is None:
            line = lines[job.queue_name] = Line(ssn, room)
        line.add(job, key)
    for crowd in room.crowds.values() if room is not None else ():
        queue = ssn.world.queues.get(crowd.queue_name)
        if queue is not None and queue.view is not None:
            line = lines.get(queue.name)
            if line is None:
                line = lines[queue.name] = Line(ssn, room)
            line.join(crowd)
    for line in lines.values():
        line.start()
    return lines
