"""Where the configuration comes from: a file that is read again when it changes; a bad one changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from strato.errors import InvalidInput
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.capacity.autocreation import CreationRefused, QueueCatalogue
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.notation import Capacity, Unit
from strato.interop.yarn.fairplugin.sources import CHECK_SECONDS
from strato.interop.yarn.fairplugin.units import Units
from strato.interop.yarn.hadoopxml import Setting, Settings

log = logging.getLogger(__name__)

_MINIMUM = "yarn.scheduler.minimum-allocation-mb"


def read_file(path: Path, others: Mapping[str, str], properties: Mapping[str, str]) -> QueueCatalogue:
    """Read a ``capacity-scheduler.xml``.

    Args:
        path: The file.
        others: Further types of resources, by YARN's name.
        properties: What other files set; the file's own properties win.

    Raises:
        InvalidInput: With all that is wrong with it.
    """
    settings = hadoopxml.settings_of(hadoopxml.read_file(path), str(path))
    added = {name: Setting(name, value, 0) for name, value in properties.items()}
    types = Setting("yarn.resource-types", ",".join(others), 0)
    return QueueCatalogue.of(Settings(settings.file, {**added, **settings.by_name, types.name: types}))


@dataclass(slots=True)
class ConfigurationSource:
    """A configuration file, as read last.

    Attributes:
        path: Where it is.
        others: Further types of resources, by YARN's name.
        properties: What other files set.
        catalogue: What it said when it could be read last; None before.
        problem: Why it could not be read since; empty when it could.
    """

    path: Path
    others: Mapping[str, str]
    properties: Mapping[str, str]
    catalogue: QueueCatalogue | None = None
    problem: str = ""
    _checked: float = float("-inf")
    _modified: float | None = None

    def refresh(self, now: float) -> bool:
        """Read the file if it is due and has changed, and return whether a new problem was found.

        Args:
            now: Seconds since the epoch.
        """
        if now - self._checked < CHECK_SECONDS and self.catalogue is not None:
            return False
        self._checked = now
        try:
            modified = self.path.stat().st_mtime
        except OSError:
            modified = None
        if modified is not None and self._modified == modified:
            return False
        before = self.problem
        try:
            self.catalogue = read_file(self.path, self.others, self.properties)
            self.problem = ""
        except InvalidInput as error:
            self.problem = str(error)
        self._modified = modified
        if self.problem and self.problem != before:
            log.warning("the capacity scheduler's file cannot be used; what it said before stays: %s", self.problem)
            return True
        return False

    def with_queues(self, paths: list[str]) -> QueueCatalogue:
        """Return the queues, with those created that Queue objects ask for and parents create."""
        assert self.catalogue is not None, "read before it is asked"
        catalogue = self.catalogue
        for path in paths:
            if path not in catalogue.configuration.by_path:
                try:
                    catalogue = catalogue.with_created(path)
                except CreationRefused:
                    continue
        self.catalogue = catalogue
        return catalogue


def scaled(catalogue: QueueCatalogue, units: Units) -> CapacityConfiguration:
    """Return a configuration in the plugin's units, which count vcores in thousandths."""
    configuration = catalogue.configuration
    root = _scaled_queue(configuration.root, units)
    least = (1,) * len(units.types)
    if _MINIMUM in catalogue.settings:
        least = tuple(max(1, n * per) for n, per in zip(configuration.minimum_allocation, units.per_unit, strict=True))
    return replace(
        configuration, root=root, by_path={queue.path: queue for queue in root.walk()}, minimum_allocation=least
    )


def _scaled_queue(queue: QueueConfiguration, units: Units) -> QueueConfiguration:
    return replace(
        queue,
        children=tuple(_scaled_queue(child, units) for child in queue.children),
        capacities={label: _scaled_capacity(one, units) for label, one in queue.capacities.items()},
        maximums={label: _scaled_capacity(one, units) for label, one in queue.maximums.items()},
    )


def _scaled_capacity(capacity: Capacity, units: Units) -> Capacity:
    parts = tuple(
        replace(part, value=part.value * per) if part.unit is Unit.ABSOLUTE else part
        for part, per in zip(capacity.parts, units.per_unit, strict=True)
    )
    return replace(capacity, parts=parts)
