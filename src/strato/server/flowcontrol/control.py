"""Priority and fairness as configured by the FlowSchemas and PriorityLevelConfigurations in the store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.wire import Request, User
from strato.lru import LruCache
from strato.metrics import Sample
from strato.server.flowcontrol import defaults
from strato.server.flowcontrol.dispatch import Dispatcher, Flow, PriorityLevel
from strato.server.flowcontrol.schemas import Candidates, Match, Schema, read_schemas
from strato.server.snapshot import Change
from strato.server.store import Store

_USERS_BYTES = 4 << 20
"""Size of the cache of users' candidate schemas, a few kilobytes each."""
_ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
_UNLIMITED = 1 << 30
_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class Assigned:
    """A request's flow, and the headers of its answer that name the flow's schema and level."""

    __slots__ = ("flow", "lines")

    def __init__(self, flow: Flow, lines: str) -> None:
        self.flow, self.lines = flow, lines


class FlowControl:
    """Finds the flow of each request; its dispatcher shares the loop among the flows."""

    def __init__(self, store: Store, timer: Callable[[], float]) -> None:
        self._store = store
        self.dispatcher = Dispatcher(timer)
        self.levels: dict[str, PriorityLevel] = {}
        self._level_uids: dict[str, str] = {}
        self._schemas: list[Schema] = []
        self._by_user: LruCache[User, _UserSchemas] = LruCache(_USERS_BYTES, lambda user, _: 3000 + len(repr(user)))
        self._is_read = False
        own = PriorityLevel("own", _UNLIMITED, _UNLIMITED, _UNLIMITED)
        self.own = Flow(own, "", _UNLIMITED)
        """The flow of the cluster's own parts."""
        for kind in (catalog.FLOWSCHEMA, catalog.PRIORITYLEVELCONFIGURATION):
            store.on_publish(kind.resource, self._observe)

    def assigned(self, user: User | None, method: str, path: str, is_watch: bool = False) -> Assigned:
        """Return the flow of a request."""
        known = self._by_user.get(user or _ANONYMOUS)
        if known is None or not self._is_read:
            known = self._fill_cache(user or _ANONYMOUS)
        sole = known.resource if path.startswith(("/api/v1/", "/apis/")) else known.other
        return sole if sole is not None else self._found(known, method, path, is_watch)

    def flow_of(self, request: Request) -> Flow:
        """Return the flow for a request's work on collections; the cluster's own parts have a flow of their own."""
        if request.uncommitted:
            return self.own
        return self.assigned(request.user, request.method, request.path, request.flag("watch")).flow

    def collect(self) -> Iterable[Sample]:
        """Yield the metrics of requests that wait, were served after waiting, and were refused."""
        for name, level in list(self.levels.items()):
            labels = {"priority_level": name}
            yield Sample("apiserver_flowcontrol_current_inqueue_requests", labels, level.waiting)
            yield Sample("apiserver_flowcontrol_dispatched_requests_total", labels, level.served)
            yield Sample("apiserver_flowcontrol_rejected_requests_total", labels, level.refused)

    def _found(self, known: _UserSchemas, method: str, path: str, is_watch: bool) -> Assigned:
        match = known.candidates.find(method, path, is_watch)
        if match is None:  # the user is in no group, not even that of all users
            match = Match(
                next(one for one in self._schemas if one.name == defaults.CATCH_ALL), known.candidates.user.name
            )
        return self._assigned(match)

    def _fill_cache(self, user: User) -> _UserSchemas:
        if not self._is_read:
            self._read()
        candidates = Candidates(self._schemas, user)
        resource, other = candidates.sole_resource, candidates.sole_other
        known = _UserSchemas(
            candidates,
            None if resource is None else self._assigned(resource),
            None if other is None else self._assigned(other),
        )
        return self._by_user.put(user, known)

    def _assigned(self, match: Match) -> Assigned:
        schema = match.schema
        level = self.levels.get(schema.level) or self.levels[defaults.CATCH_ALL]
        flow = self.dispatcher.flow(level, f"{schema.name}/{match.distinguisher}")
        lines = (
            f"x-kubernetes-pf-flowschema-uid: {schema.uid}\r\n"
            f"x-kubernetes-pf-prioritylevel-uid: {self._level_uids.get(level.name, '')}\r\n"
        )
        return Assigned(flow, lines)

    def _observe(self, resource: str, change: Change) -> None:
        del resource, change
        self._is_read = False

    def _read(self) -> None:
        """Read the configuration from the store; mandatory objects always count with their prescribed content."""
        self._is_read = True
        self._by_user.clear()
        self._schemas = read_schemas(self._objects(catalog.FLOWSCHEMA, defaults.SCHEMAS))
        before, self.levels, self._level_uids = self.levels, {}, {}
        found = {
            obj["metadata"]["name"]: obj for obj in self._objects(catalog.PRIORITYLEVELCONFIGURATION, defaults.LEVELS)
        }
        total = sum(_shares(obj) for obj in found.values())
        for name, obj in found.items():
            # with one loop no level can be unlimited: exempt requests get as much of it as all others together
            shares = total if name == defaults.EXEMPT else max(1, _shares(obj))
            length, total_length = (_UNLIMITED, _UNLIMITED) if name == defaults.EXEMPT else _lengths(obj)
            level = before.get(name) or PriorityLevel(name, shares, length, total_length)
            level.shares, level.queue_length, level.total_length = float(shares), length, total_length
            self.levels[name] = level
            self._level_uids[name] = obj["metadata"].get("uid", "")

    def _objects(self, kind: Kind, ours: Iterable[Any]) -> Iterator[Any]:
        """Yield the stored objects, or the defaults if none are stored; mandatory ones with prescribed content."""
        stored = {key: _decode(row.body) for key, row in self._store.bucket(kind.resource).objects.items()}
        is_configured = bool(stored)
        for obj in ours:
            name = obj["metadata"]["name"]
            if name in defaults.MANDATORY or not is_configured:
                known = stored.pop(name, obj)
                yield {**obj, "metadata": known["metadata"]}
        yield from stored.values()


class _UserSchemas:
    """The candidate schemas of a user, cached."""

    __slots__ = ("candidates", "other", "resource")

    def __init__(self, candidates: Candidates, resource: Assigned | None, other: Assigned | None) -> None:
        self.candidates, self.resource, self.other = candidates, resource, other


def _limited(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = obj.get("spec") or {}
    found: Mapping[str, Any] = spec.get("limited") or {}
    return found


def _shares(obj: Mapping[str, Any]) -> int:
    spec = obj.get("spec") or {}
    part = spec.get("limited") or spec.get("exempt") or {}
    shares = part.get("nominalConcurrencyShares")
    return shares if isinstance(shares, int) else 30


def _lengths(obj: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many requests of one flow, and of all flows of a level, may wait.

    One flow may fill the queues of its hand (shuffle sharding), all flows the level's queues. A level of type Reject
    has no queues, but requests that one turn of the loop cannot serve still wait for the next turn.
    """
    response = _limited(obj).get("limitResponse") or {}
    if response.get("type") != "Queue":
        return _REJECTING
    queuing = response.get("queuing") or {}
    queues, hand = queuing.get("queues") or 64, queuing.get("handSize") or 8
    length = queuing.get("queueLengthLimit") or 50
    return math.ceil(min(hand, queues) * length), queues * length


_REJECTING = (1, 5)
