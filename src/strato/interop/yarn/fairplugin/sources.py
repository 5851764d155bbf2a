"""Where the allocations come from: a file that is read again when it changes, or annotations of Queue objects.

Annotations carry the same elements in the same notation as the file, so both are read by one reader.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from strato.api.volcano.scheduling import Queue as QueueView
from strato.errors import InvalidInput
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.fair import allocationfile
from strato.interop.yarn.fair.allocation import ROOT, Allocations, parent_of
from strato.interop.yarn.fair.placement import full_name
from strato.interop.yarn.hadoopxml import Element
from strato.interop.yarn.resources import ResourceTypes
from strato.scheduler.model.queues import Queue

log = logging.getLogger(__name__)

PATH = "yarn.strato.io/path"
"""Annotation of a Queue: its full name in YARN, which may have letters that names in Kubernetes do not."""
SETTING = "fair.yarn.strato.io/"
"""Prefix of annotations of a Queue: ``fair.yarn.strato.io/weight: "2.0"`` is the element of that name."""
DEFAULT = "fair-defaults.yarn.strato.io/"
"""Prefix of annotations of the Queue root: elements of the file's top level."""
USERS = "fair-users.yarn.strato.io/"
"""Prefix of annotations of the Queue root: ``maxRunningApps`` by user."""

CHECK_SECONDS = 10.0
"""How often the file is looked at, as in YARN."""
SETTLED_SECONDS = 5.0
"""How old a change must be before it is read: whoever writes may not be done."""


def path_of(queue: Queue) -> str:
    """Return a queue's full name in YARN: by annotation, or its own name below the root."""
    named = queue.view.metadata.annotation(PATH) if queue.view is not None else ""
    return full_name(named or queue.name)


@dataclass(slots=True)
class FileSource:
    """An allocation file, as read last.

    Attributes:
        path: Where it is.
        allocations: What it said when it could be read last; None before.
        problem: Why it could not be read since; empty when it could.
    """

    path: Path
    types: ResourceTypes
    allocations: Allocations | None = None
    problem: str = ""
    _checked: float = float("-inf")
    _modified: float | None = None

    def refresh(self, now: float) -> bool:
        """Read the file if it is due and has changed, and return whether a new problem was found.

        Args:
            now: Seconds since the epoch.
        """
        if now - self._checked < CHECK_SECONDS and self.allocations is not None:
            return False
        self._checked = now
        try:
            modified = self.path.stat().st_mtime
        except OSError:
            modified = None
        if modified is not None and self._modified == modified:
            return False
        if self.allocations is not None and modified is not None and 0 <= now - modified < SETTLED_SECONDS:
            self._checked = now - CHECK_SECONDS
            return False
        before = self.problem
        try:
            self.allocations = allocationfile.read(hadoopxml.read_file(self.path), self.types, str(self.path))
            self.problem = ""
        except InvalidInput as error:
            self.problem = str(error)
        self._modified = modified
        if self.problem and self.problem != before:
            log.warning("the allocation file cannot be used; what it said before stays: %s", self.problem)
            return True
        return False


@dataclass(slots=True)
class AnnotationSource:
    """Annotations of queues, as read last; they are read again only when a Queue object has changed.

    Attributes:
        allocations: What they said when they could be read last; None before.
        problem: Why they could not be read since; empty when they could.
    """

    types: ResourceTypes
    allocations: Allocations | None = None
    problem: str = ""
    _views: list[QueueView] = field(default_factory=list)

    def refresh(self, queues: Iterable[Queue]) -> bool:
        """Read the annotations if a queue has changed, and return whether a new problem was found."""
        known = [queue for queue in queues if queue.view is not None]
        views = [queue.view for queue in known if queue.view is not None]
        same = len(views) == len(self._views) and all(map(operator.is_, views, self._views))
        if same and (self.allocations is not None or self.problem):
            return False
        self._views = views
        before = self.problem
        try:
            self.allocations = from_annotations(known, self.types)
            self.problem = ""
        except InvalidInput as error:
            self.problem = str(error)
        if self.problem and self.problem != before:
            log.warning("annotations of queues cannot be used; what they said before stays: %s", self.problem)
            return True
        return False


def from_annotations(queues: Iterable[Queue], types: ResourceTypes) -> Allocations:
    """Return what annotations of queues say.

    Raises:
        InvalidInput: A value cannot be read; the place names the queue's annotation.
    """
    root = Element("queue", 0, {"name": ROOT})
    top = Element("allocations", 0)
    made: dict[str, Element] = {ROOT: root}
    for queue in sorted(queues, key=lambda queue: queue.name):
        if queue.view is None:
            continue
        annotations = queue.view.metadata.annotations or {}
        element = _element(path_of(queue), made)
        for name, value in sorted(annotations.items()):
            if name.startswith(SETTING):
                setting = name.removeprefix(SETTING)
                if setting == "type":
                    element.attributes = {**element.attributes, "type": value}
                else:
                    element.children.append(Element(setting, 0, text=value))
            elif name.startswith(DEFAULT):
                top.children.append(Element(name.removeprefix(DEFAULT), 0, text=value))
            elif name.startswith(USERS):
                limit = Element("maxRunningApps", 0, text=value)
                top.children.append(Element("user", 0, {"name": name.removeprefix(USERS)}, children=[limit]))
    top.children.append(root)
    return allocationfile.read(top, types, "annotations of queues")


def _element(path: str, made: dict[str, Element]) -> Element:
    """Return the element of a queue, made with those above it."""
    missing = []
    while path not in made:
        missing.append(path)
        path = parent_of(path) or ROOT
    for name in reversed(missing):
        made[name] = Element("queue", 0, {"name": name.rpartition(".")[2]})
        made[parent_of(name) or ROOT].children.append(made[name])
    return made[missing[0]] if missing else made[path]


def annotations_of(
    settings: Mapping[str, str], defaults: Mapping[str, str], users: Mapping[str, str]
) -> dict[str, str]:
    """Return the annotations that say the same as elements of a file; for importers."""
    return {
        **{SETTING + name: value for name, value in settings.items()},
        **{DEFAULT + name: value for name, value in defaults.items()},
        **{USERS + name: value for name, value in users.items()},
    }
