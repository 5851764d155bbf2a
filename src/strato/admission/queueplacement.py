"""Chooses the queue of new work by rules about its submitter, if an installation has such rules.

The rules come from outside this room (`strato.interop`, YARN's for example); this module decides to which writes they
apply. They do not apply to the cluster's own components, which create objects on behalf of users whose work was placed
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from strato.admission import queueacls
from strato.admission.request import AdmissionReader, AdmissionRequest, Json
from strato.api import catalog
from strato.api.defaults.jobs import DEFAULT_QUEUE
from strato.api.frameworks import BY_KIND
from strato.api.kinds import Kind
from strato.errors import Forbidden, StateError

PATH: Final = "/placement/mutate"
"""Path of the service; on if there are rules. Its name sorts before those of services that read the queue, because API
servers call webhooks in the order of names."""
WEBHOOK: Final = "placement.strato.dev"

_MEMBERS: Final[dict[Kind, tuple[str, ...]]] = {
    catalog.VCJOB: ("spec",),
    catalog.VCCRONJOB: ("spec", "jobTemplate", "spec"),
    catalog.JOBTEMPLATE: ("spec",),
    catalog.PODGROUP: ("spec",),
    **dict.fromkeys(BY_KIND, ("spec", "runPolicy", "schedulingPolicy")),
}
"""Path of the object that has the member ``queue``, by kind."""

KINDS: Final = tuple(_MEMBERS)
"""Kinds of work that is placed."""


_TEMPLATES: Final = (catalog.VCCRONJOB, catalog.JOBTEMPLATE)
"""Kinds from which work is created later; limits do not count them."""


class NotPlaced(StateError):
    """The rules refuse work; the message says which rule and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedWork:
    """New work as the rules see it."""

    name: str
    queue: str
    """The queue that the work names; empty when it names none, or the default one."""
    user: str
    groups: tuple[str, ...]
    """Groups of the user, without Kubernetes' own (``system:…``)."""
    kind: str = ""
    namespace: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Its annotations and labels."""
    dry_run: bool = False


class QueuePlacement(Protocol):
    """Rules that choose the queue of new work."""

    def place(self, submission: SubmittedWork, queues: Sequence[Json]) -> str:
        """Return the name of the queue; empty leaves the work in the queue that it names.

        Args:
            submission: The work.
            queues: All Queue objects.

        Raises:
            NotPlaced: The rules refuse the work.
        """


class QueueLimits(Protocol):
    """Limits on the amount of work in each queue."""

    def admit(self, submission: SubmittedWork, queue: str, queues: Sequence[Json]) -> None:
        """Count work that has no controller towards the limits of its queue.

        Args:
            submission: The work.
            queue: Name of the queue that it goes to.
            queues: All Queue objects.

        Raises:
            NotPlaced: The queue has reached its limit.
        """


@dataclass(frozen=True, slots=True)
class PlaceInQueue:
    """Applies the rules to new work of users."""

    rules: QueuePlacement
    trusted: frozenset[str]
    limits: QueueLimits | None = None

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Set the work's queue, in place.

        Raises:
            Forbidden: The rules refuse the work.
        """
        user, obj = request.user, request.object
        if user is None or obj is None or queueacls.is_trusted(user, self.trusted):
            return
        spec = obj
        for member in _MEMBERS[request.kind]:
            if not spec.get(member):
                spec[member] = {}
            spec = spec[member]
        named = spec.get("queue") or ""
        submission = SubmittedWork(
            name=request.name,
            queue="" if named == DEFAULT_QUEUE else named,
            user=user.name,
            groups=tuple(group for group in user.groups if not group.startswith("system:")),
            kind=request.kind.name,
            namespace=request.namespace,
            notes={**(obj["metadata"].get("annotations") or {}), **(obj["metadata"].get("labels") or {})},
            dry_run=request.dry_run,
        )
        queues = reader.list(catalog.QUEUE, "")
        try:
            placed = self.rules.place(submission, queues)
            if self.limits is not None and request.kind not in _TEMPLATES and not _is_owned(obj):
                self.limits.admit(submission, placed or named or DEFAULT_QUEUE, queues)
        except NotPlaced as problem:
            raise Forbidden(f"{request.kind.name} {request.name} of {user.name} goes to no queue: {problem}") from None
        if placed:
            spec["queue"] = placed


def _is_owned(obj: Json) -> bool:
    """Whether a controller made the object, which is counted itself."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
