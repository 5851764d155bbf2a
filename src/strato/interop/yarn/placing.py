"""Placement rules of YARN's schedulers, applied at admission: they choose the Queue object of a user's new work.

A user's groups are those of the admission request, in its order; the first one that is not Kubernetes' own is the
primary group. Only existing Queue objects are candidates: a rule that would create a queue in YARN is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from strato.admission.queueplacement import NotPlaced, QueuePlacement, SubmittedWork
from strato.api.meta import Json
from strato.errors import InvalidInput, Problem, StateError
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.capacity import placement as capacityplacement
from strato.interop.yarn.capacity.autocreation import QueueCatalogue
from strato.interop.yarn.capacity.configuration import CapacityConfiguration
from strato.interop.yarn.capacity.mappingrules import MappingRules
from strato.interop.yarn.capacity.mappingrules import read as read_mapping
from strato.interop.yarn.capacityplugin.source import with_queues
from strato.interop.yarn.fair import placement as fairplacement
from strato.interop.yarn.fair.placement import PlacementRule, full_name, rules_from
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.objects import PATH

_FAIR = "queuePlacementPolicy"
_LIMITS = (".maximum-applications", ".global-queue-max-application")
"""Endings of the properties that limit the number of applications."""


class FollowedPlacement:
    """The rules of a file that is followed for changes; an invalid change is reported and not applied."""

    def __init__(self, path: Path) -> None:
        self._file = FollowedFile(path, read)

    def refresh(self, now: float) -> None:
        """Read the file if a check is due and it has changed.

        Args:
            now: Seconds since the epoch.

        Raises:
            InvalidInput: The file has never been valid.
        """
        self._file.refresh(now)
        if self._file.content is None:
            raise InvalidInput(
                "the placement rules", [Problem("", self._file.problem or f"{self._file.path}: no file")]
            )

    @property
    def content(self) -> QueuePlacement | None:
        """The last valid rules; None before."""
        return self._file.content

    def place(self, submission: SubmittedWork, queues: Sequence[Json]) -> str:
        """See `QueuePlacement.place`."""
        return self._file.content.place(submission, queues) if self._file.content is not None else ""


def read(path: Path) -> QueuePlacement:
    """Read ``fair-scheduler.xml`` or ``capacity-scheduler.xml``, whichever it is.

    Raises:
        InvalidInput: Lists all problems of the file; also raised when it has no rules.
    """
    root = hadoopxml.read_file(path)
    if root.name == "allocations":
        policies = list(root.all_named(_FAIR))
        rules = rules_from(policies[-1]) if policies else ()
        if not rules:
            raise InvalidInput(str(path), [Problem(_FAIR, "has no <rule>, so there is nothing to place by")])
        return FairPlacement(str(path), tuple(_among_existing(rule) for rule in rules))
    settings = hadoopxml.settings_of(root, str(path))
    mapping = read_mapping(settings)
    if not mapping.rules and not any(setting.name.endswith(_LIMITS) for setting in settings):
        text = "is not set, nor is any maximum-applications, so there is nothing to place by and nothing to limit"
        raise InvalidInput(str(path), [Problem("yarn.scheduler.capacity.queue-mappings", text)])
    return CapacityPlacement(mapping, QueueCatalogue.of(settings))


def _among_existing(rule: PlacementRule) -> PlacementRule:
    return replace(rule, create=False, parent=_among_existing(rule.parent) if rule.parent is not None else None)


@dataclass(frozen=True, slots=True)
class FairPlacement:
    """``<queuePlacementPolicy>`` of the Fair Scheduler."""

    file: str
    rules: tuple[PlacementRule, ...]

    def place(self, submission: SubmittedWork, queues: Sequence[Json]) -> str:
        """See `QueuePlacement.place`; submissions that no rule places are refused."""
        names = _by_path(queues)
        requested = _path_of(submission.queue, names) if submission.queue else "default"
        try:
            path = fairplacement.place(
                self.rules, requested, submission.user, lambda _: submission.groups, _Existing(names)
            )
        except StateError as problem:
            raise NotPlaced(f"{self.file}: {problem}") from None
        if path is None:
            raise NotPlaced(f"{self.file}: no rule finds a queue for it; rules place in queues that exist only")
        if not _Existing(names).is_leaf(path):
            raise NotPlaced(f"{self.file}: queue {path} holds queues, not applications")
        return names[path]


@dataclass(slots=True)
class CapacityPlacement:
    """Mapping rules of the Capacity Scheduler."""

    rules: MappingRules
    catalogue: QueueCatalogue
    """The queues that the file configures."""
    _paths: tuple[str, ...] = ()
    _with_queues: QueueCatalogue | None = None
    """Catalogue extended by Queue objects' paths; cached, as each creation reads the configuration again."""

    def place(self, submission: SubmittedWork, queues: Sequence[Json]) -> str:
        """See `QueuePlacement.place`; submissions that no rule matches keep their queue."""
        names = _by_path(queues)
        asked = capacityplacement.ApplicationSubmission(
            queue=_path_of(submission.queue, names) if submission.queue else capacityplacement.DEFAULT_NAME,
            user=submission.user,
            groups=submission.groups,
            name=submission.name,
        )
        try:
            path = capacityplacement.place(asked, self.rules, self._catalogue_with(tuple(sorted(names))))
        except capacityplacement.PlacementRejected as problem:
            raise NotPlaced(str(problem)) from None
        if path is None:
            return ""
        if path not in names:
            raise NotPlaced(f"there is no Queue object of {path}; create one, with the annotation {PATH}: {path}")
        return names[path]

    def configuration_with(self, paths: Iterable[str]) -> CapacityConfiguration:
        """Return the configuration extended by the paths of existing Queue objects."""
        return self._catalogue_with(tuple(sorted(paths))).configuration

    def _catalogue_with(self, paths: tuple[str, ...]) -> QueueCatalogue:
        """Return the catalogue extended by these paths; cached until the paths change."""
        if self._with_queues is None or paths != self._paths:
            self._paths, self._with_queues = paths, with_queues(self.catalogue, paths)
        return self._with_queues


@dataclass(frozen=True, slots=True)
class _Existing:
    """The Queue objects, behind the interface that the Fair Scheduler's rules query."""

    names: Mapping[str, str]

    def is_configured(self, name: str) -> bool:
        return name in self.names

    def is_leaf(self, name: str) -> bool:
        return name in self.names and not any(other.startswith(f"{name}.") for other in self.names)


def _by_path(queues: Sequence[Json]) -> dict[str, str]:
    """Return the names of Queue objects by their full names in YARN."""
    return {path_of_queue(queue): queue["metadata"]["name"] for queue in queues}


def path_of_queue(queue: Json) -> str:
    """Return the full name in YARN of a Queue object as JSON, as `path_of` does for the scheduler's queues."""
    metadata = queue["metadata"]
    return full_name((metadata.get("annotations") or {}).get(PATH) or metadata["name"])


def _path_of(name: str, names: Mapping[str, str]) -> str:
    """Return the full name of the queue that a submission names, by the Queue object's name or by YARN's."""
    return next((path for path, own in names.items() if own == name), name)
