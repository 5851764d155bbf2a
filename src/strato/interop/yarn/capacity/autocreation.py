"""Queues that placement creates: below which parents, with which settings, and how many.

Version 1 (`auto-create-child-queue`): a managed parent creates leaves, each with its template's capacity while the
parent has that much unassigned, and with capacity 0 afterwards. Version 2 (`auto-queue-creation-v2`): a parent creates
parents and leaves below itself, by weight, from templates that may be given by wildcards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strato.errors import UsageError
from strato.interop.yarn.capacity import notation
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.notation import NotationError, Unit
from strato.interop.yarn.capacity.reader import CreatedQueue, read
from strato.interop.yarn.capacity.settings import SCHEDULER
from strato.interop.yarn.hadoopxml import HadoopSettings

_TEMPLATE = "auto-queue-creation-v2."
_MOST_NAME = 256


class CreationRefused(UsageError):
    """A queue is not created; the message says why."""


@dataclass(frozen=True, slots=True)
class QueueCatalogue:
    """The queues there are: configured ones, and those that placement created."""

    settings: HadoopSettings
    configuration: CapacityConfiguration
    created: Mapping[str, CreatedQueue]

    @classmethod
    def of(cls, settings: HadoopSettings) -> QueueCatalogue:
        """Read a configuration; nothing is created yet."""
        return cls(settings, read(settings), {})

    def find(self, name: str) -> QueueConfiguration | None:
        """Return a queue by its path, or by its name if that is unique."""
        found = self.configuration.by_path.get(name)
        if found is not None or "." in name:
            return found
        named = self.named(name)
        return named[0] if len(named) == 1 else None

    def named(self, name: str) -> list[QueueConfiguration]:
        """Return the queues whose path ends with this name; if a leaf has it, only the leaf."""
        named = [queue for queue in self.configuration.by_path.values() if queue.name == name]
        leaves = [queue for queue in named if not queue.is_parent]
        return leaves if len(leaves) == 1 else named

    def with_created(self, path: str) -> QueueCatalogue:
        """Return the catalogue with a leaf created, and the parents it needs.

        Raises:
            CreationRefused: The parent creates no queues, not as deep, or not as many.
        """
        problem = self.refusal(path)
        if problem:
            raise CreationRefused(problem)
        if path in self.created:
            return self
        parent = path.rpartition(".")[0]
        managed = self.configuration.by_path.get(parent)
        if managed is not None and managed.auto_creation.is_managed:
            return self._with_queues({path: self._managed_leaf(managed)})
        missing = [path]
        while missing[0].rpartition(".")[0] not in self.configuration.by_path:
            missing.insert(0, missing[0].rpartition(".")[0])
        queues = {each: self._flexible(each, is_parent=each != path) for each in missing}
        return self._with_queues(queues)

    def without(self, paths: set[str]) -> QueueCatalogue:
        """Return the catalogue with created queues removed."""
        left = {path: queue for path, queue in self.created.items() if path not in paths}
        return QueueCatalogue(self.settings, read(self.settings, left), left)

    def _with_queues(self, queues: Mapping[str, CreatedQueue]) -> QueueCatalogue:
        created = {**self.created, **queues}
        return QueueCatalogue(self.settings, read(self.settings, created), created)

    # 1. Whether

    def refusal(self, path: str) -> str:
        """Return why a leaf cannot be created; empty when it can."""
        parent, _, name = path.rpartition(".")
        by_path = self.configuration.by_path
        if not parent or not name or len(name) > _MOST_NAME:
            return f"{path[:80]!r} is no path of a queue below root"
        levels = 1
        existing = parent
        while existing and existing not in by_path:
            existing = existing.rpartition(".")[0]
            levels += 1
        above = by_path.get(existing)
        if above is None:
            return f"{path}: there is no queue {existing or path.partition('.')[0]!r}"
        if above.auto_creation.is_managed:
            return self._managed_refusal(above, path) if levels == 1 else f"{path}: {existing} creates leaves only"
        static, depth = above, levels
        while static.is_dynamic:
            static, depth = by_path[static.parent_path], depth + 1
        if not above.is_parent or not (above.is_dynamic or above.auto_creation.is_flexible):
            return f"{path}: {existing} does not create queues; auto-queue-creation-v2.enabled allows that"
        if depth > static.auto_creation.most_levels:
            most = static.auto_creation.most_levels
            return f"{path} lies {depth} levels below {static.path}, which creates {most} at most (maximum-queue-depth)"
        count = sum(1 for queue in static.walk() if queue.is_dynamic)
        if count + levels > static.auto_creation.most_queues:
            return f"{path}: {static.path} has created {count} queues, as many as max-queues allows"
        return ""

    def _managed_refusal(self, parent: QueueConfiguration, path: str) -> str:
        if path in self.created:
            return ""
        if len(parent.children) >= parent.auto_creation.most_queues:
            return f"{path}: {parent.path} has created {len(parent.children)} queues, as many as max-queues allows"
        if parent.auto_creation.fails_beyond_parent and not self._has_capacity_left(parent):
            return f"{path}: {parent.path} has no capacity left for another queue"
        return ""

    # 2. With which settings

    def _has_capacity_left(self, parent: QueueConfiguration) -> bool:
        wanted = self._template_fraction(parent)
        given = sum(child.capacities[""].fraction for child in parent.children)
        return given + wanted <= 1 + 1e-6

    def _template_fraction(self, parent: QueueConfiguration) -> float:
        text = self.settings.get(f"{SCHEDULER}{parent.path}.leaf-queue-template.capacity", "0")
        try:
            capacity = notation.parse(text, self.configuration.types)
        except NotationError:
            return 0.0
        return capacity.fraction if capacity.unit is Unit.PERCENT else 0.0

    def _managed_leaf(self, parent: QueueConfiguration) -> CreatedQueue:
        values = dict(self._below(f"{parent.path}.leaf-queue-template."))
        if not self._has_capacity_left(parent):
            values["capacity"] = "0"
        values.setdefault("capacity", "0")
        return CreatedQueue(values=values)

    def _flexible(self, path: str, *, is_parent: bool) -> CreatedQueue:
        values = {"capacity": "1w"}
        own = "parent-template." if is_parent else "leaf-template."
        for kind in ("template.", own):
            for pattern in reversed(_patterns(path.rpartition(".")[0])):
                values |= dict(self._below(f"{pattern}.{_TEMPLATE}{kind}"))
        return CreatedQueue(is_parent=is_parent, is_flexible=True, values=values)

    def _below(self, prefix: str) -> Iterator[tuple[str, str]]:
        for setting in self.settings:
            if setting.name.startswith(SCHEDULER + prefix):
                name = setting.name[len(SCHEDULER + prefix) :]
                yield name, self.settings.get(setting.name)


def _patterns(path: str) -> list[str]:
    """Return the path of a parent, and with its last parts as wildcards; the most specific first."""
    parts = path.split(".")
    return [".".join((*parts[: len(parts) - count], *("*",) * count)) for count in range(len(parts))]
