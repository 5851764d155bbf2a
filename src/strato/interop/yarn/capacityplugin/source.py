"""The source of the configuration: a file that is read again when it changes; an invalid change is not applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from strato.interop.yarn import hadoopxml
from strato.interop.yarn.capacity.autocreation import CreationRefused, QueueCatalogue
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.notation import Capacity, Unit
from strato.interop.yarn.followedfile import FollowedFile
from strato.interop.yarn.hadoopxml import HadoopSettings, Setting
from strato.interop.yarn.units import Units

_MINIMUM = "yarn.scheduler.minimum-allocation-mb"


def read_file(path: Path, others: Mapping[str, str], properties: Mapping[str, str]) -> QueueCatalogue:
    """Read a ``capacity-scheduler.xml``.

    Args:
        path: The file.
        others: Further types of resources, by YARN's name.
        properties: Properties of other files; the file's own override them.

    Raises:
        InvalidInput: Lists all problems of the file.
    """
    settings = hadoopxml.settings_of(hadoopxml.read_file(path), str(path))
    added = {name: Setting(name, value, 0) for name, value in properties.items()}
    types = Setting("yarn.resource-types", ",".join(others), 0)
    return QueueCatalogue.of(HadoopSettings(settings.file, {**added, **settings.by_name, types.name: types}))


def file_source(path: Path, others: Mapping[str, str], properties: Mapping[str, str]) -> FollowedFile[QueueCatalogue]:
    """Return the queues of a file that is followed for changes; see `read_file` for the other arguments."""
    return FollowedFile(path, lambda file: read_file(file, others, properties))


def with_queues(catalogue: QueueCatalogue, paths: Sequence[str]) -> QueueCatalogue:
    """Return the catalogue with those Queue objects' paths created that a parent may create."""
    for path in paths:
        if path not in catalogue.configuration.by_path:
            try:
                catalogue = catalogue.with_created(path)
            except CreationRefused:
                continue
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
