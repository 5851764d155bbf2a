"""Sources of the allocations: a file that is read again when it changes, or annotations of Queue objects.

Annotations hold the file's elements in the same notation, so one reader parses both.
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
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.hadoopxml import Element
from strato.interop.yarn.objects import path_of
from strato.interop.yarn.resources import ResourceTypes
from strato.scheduler.model.queues import Queue

log = logging.getLogger(__name__)

SETTING = "fair.yarn.strato.io/"
"""Prefix of annotations of a Queue: ``fair.yarn.strato.io/weight: "2.0"`` is the element of that name."""
DEFAULT = "fair-defaults.yarn.strato.io/"
"""Prefix of annotations of the Queue root: elements of the file's top level."""
USERS = "fair-users.yarn.strato.io/"
"""Prefix of annotations of the Queue root: ``maxRunningApps`` by user."""


def file_source(path: Path, types: ResourceTypes) -> FollowedFile[Allocations]:
    """Return the allocations of a file that is followed for changes."""
    return FollowedFile(path, lambda file: allocationfile.read(hadoopxml.read_file(file), types, str(file)))


@dataclass(slots=True)
class AnnotationSource:
    """Allocations in annotations of queues, read again only when a Queue object has changed.

    Attributes:
        content: The last valid allocations; None before.
        problem: Why the annotations are invalid at present; empty when they are not.
    """

    types: ResourceTypes
    content: Allocations | None = None
    problem: str = ""
    _views: list[QueueView] = field(default_factory=list)

    def refresh(self, queues: Iterable[Queue]) -> bool:
        """Read the annotations if a queue has changed, and return whether a new problem was found."""
        known = [queue for queue in queues if queue.view is not None]
        views = [queue.view for queue in known if queue.view is not None]
        same = len(views) == len(self._views) and all(map(operator.is_, views, self._views))
        if same and (self.content is not None or self.problem):
            return False
        self._views = views
        before = self.problem
        try:
            self.content = from_annotations(known, self.types)
            self.problem = ""
        except InvalidInput as error:
            self.problem = str(error)
        if self.problem and self.problem != before:
            log.warning("annotations of queues cannot be used; what they said before stays: %s", self.problem)
            return True
        return False


def from_annotations(queues: Iterable[Queue], types: ResourceTypes) -> Allocations:
    """Return the allocations in annotations of queues.

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
    """Return the element of a queue; create it and its parents if missing."""
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
    """Return annotations equivalent to elements of a file, for importers."""
    return {
        **{SETTING + name: value for name, value in settings.items()},
        **{DEFAULT + name: value for name, value in defaults.items()},
        **{USERS + name: value for name, value in users.items()},
    }
