"""New work is put into a queue by rules about who submits it, where an installation has such rules.

The rules are somebody else's (YARN's, say) and are handed in; here is what they are asked about. The cluster's own
parts create on behalf of users whose objects were placed here, and are not asked.
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
"""Path of the service, on where there are rules. It comes before those that go by the queue: servers ask in the order
of names."""
WEBHOOK: Final = "placement.strato.dev"

_MEMBERS: Final[dict[Kind, tuple[str, ...]]] = {
    catalog.VCJOB: ("spec",),
    catalog.VCCRONJOB: ("spec", "jobTemplate", "spec"),
    catalog.JOBTEMPLATE: ("spec",),
    catalog.PODGROUP: ("spec",),
    **dict.fromkeys(BY_KIND, ("spec", "runPolicy", "schedulingPolicy")),
}
"""Where kinds have their member ``queue``."""

KINDS: Final = tuple(_MEMBERS)
"""What is placed."""


_TEMPLATES: Final = (catalog.VCCRONJOB, catalog.JOBTEMPLATE)
"""What makes work later."""


class NotPlaced(StateError):
    """The rules turn work away; the message says by which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What rules may look at."""

    name: str
    queue: str
    """The queue that the work names; empty when it names none, or the default one."""
    user: str
    groups: tuple[str, ...]
    """Of the user; those that Kubernetes itself gives are left out."""
    kind: str = ""
    namespace: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Its annotations and labels."""
    dry_run: bool = False


class QueuePlacement(Protocol):
    """Rules that say which queue new work goes to."""

    def place(self, submission: Submission, queues: Sequence[Json]) -> str:
        """Return the name of the queue; empty leaves the work where it is.

        Args:
            submission: The work.
            queues: All Queue objects.

        Raises:
            NotPlaced: The rules turn it away.
        """


class QueueLimits(Protocol):
    """How much work queues take."""

    def admit(self, submission: Submission, queue: str, queues: Sequence[Json]) -> None:
        """Count work that runs by itself towards the limits of its queue.

        Args:
            submission: The work.
            queue: Name of the queue that it goes to.
            queues: All Queue objects.

        Raises:
            NotPlaced: The queue has as much as it takes.
        """


@dataclass(frozen=True, slots=True)
class PlaceInQueue:
    """Asks the rules about new work of users."""

    rules: QueuePlacement
    trusted: frozenset[str]
    limits: QueueLimits | None = None

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Set the work's queue, in place.

        Raises:
            Forbidden: The rules turn it away.
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
        submission = Submission(
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
    """Whether something made it that counts itself."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
