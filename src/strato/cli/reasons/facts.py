"""The objects in which reasons are found, as read together from a cluster or from files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strato.cli.reasons.pods import pod_reason
from strato.cli.reasons.report import StateReason
from strato.client.cluster import Json


@dataclass(slots=True)
class Facts:
    """Objects that belong to the one that is asked about.

    Attributes:
        pods: Pods that may be its own.
        groups: Pod groups that may be its own.
        events: Events of its namespace.
        jobs: Jobs that it may own, of either kind.
        replica_sets: ReplicaSets that it may own.
        now: When the cluster was read, in seconds since the epoch; None for files.
    """

    pods: Sequence[Json] = ()
    groups: Sequence[Json] = ()
    events: Sequence[Json] = ()
    jobs: Sequence[Json] = ()
    replica_sets: Sequence[Json] = ()
    now: float | None = None
    _events: Mapping[str, list[Json]] | None = field(default=None, init=False, repr=False)

    def events_of(self, obj: Json) -> list[Json]:
        """Return the events about an object."""
        if self._events is None:
            by_uid: dict[str, list[Json]] = defaultdict(list)
            for event in self.events:
                about = event.get("involvedObject") or event.get("regarding") or {}
                by_uid[about.get("uid", "")].append(event)
            self._events = dict(by_uid)
        return self._events.get(uid_of(obj), [])

    def pods_of(self, *owners: Json) -> list[Json]:
        """Return the pods that one of the given objects owns."""
        return owned_by(self.pods, *owners)

    def reasons_of(self, pods: Iterable[Json]) -> dict[str, StateReason]:
        """Return, by name, why pods failed, cannot start or wait; pods that run or succeeded are left out."""
        found = ((pod["metadata"]["name"], pod_reason(pod, self.events_of(pod))) for pod in pods)
        return {name: reason for name, reason in found if reason is not None}


def owned_by(objects: Iterable[Json], *owners: Json) -> list[Json]:
    """Return the objects that one of the owners owns, by uid; for files, whose objects have none, by kind and name."""
    uids = {uid_of(owner) for owner in owners} - {""}
    names = {(_namespace(owner), owner.get("kind"), owner["metadata"]["name"]) for owner in owners if not uid_of(owner)}

    def is_owned(obj: Json) -> bool:
        references = obj["metadata"].get("ownerReferences") or ()
        here = _namespace(obj)
        return any(r.get("uid") in uids or (here, r.get("kind"), r.get("name")) in names for r in references)

    return [obj for obj in objects if is_owned(obj)]


def _namespace(obj: Json) -> str:
    return str(obj["metadata"].get("namespace") or "default")


def uid_of(obj: Json) -> str:
    """Return an object's uid; "" in files."""
    return str(obj["metadata"].get("uid") or "")
