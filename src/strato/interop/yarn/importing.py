"""What importers of YARN's files share: sorting files by scheduler, and the result of an import.

`fairimport` and `capacityimport` each offer ``imported(sources, options)``, which returns an `Imported`, and
``checked(sources, options)``, which returns lines. The root elements of the files tell which one to use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from strato.errors import InvalidInput, Problem
from strato.interop.yarn import hadoopxml
from strato.interop.yarn.hadoopxml import Element, HadoopSettings

FAIR: Final = "fair"
CAPACITY: Final = "capacity"
_CAPACITY_PREFIX = "yarn.scheduler.capacity."

MAPS: Final = "maps"
DIFFERS: Final = "differs"
MISSING: Final = "missing"
REFUSED: Final = "refused"
"""Outcomes of a line: it maps, it maps but behaves differently, it has no counterpart, it must be changed first."""

OPEN_ABOVE: Final = (
    "keeps nobody out, as one above it lets everybody in (root does unless its list is a blank); as in YARN"
)
"""Remark on an access list below one that is open to all."""

KNOWN_RESOURCES: Final = {"yarn.io/gpu": "nvidia.com/gpu", "gpu": "nvidia.com/gpu"}
"""Kubernetes' names of resource types that users need not give."""

_LONGEST_NAME = 63
_ANNOTATION_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """The outcome of importing one line of a file."""

    file: str
    line: int
    what: str
    """Queue and element, or property: ``root.a: weight``."""
    becomes: str
    """One of `MAPS`, `DIFFERS`, `MISSING`, `REFUSED`."""
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.becomes}: {self.what}: {self.text}"


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    queues: Sequence[Mapping[str, Any]]
    """Queue manifests, parents before children."""
    config: Mapping[str, Any]
    """The scheduler's configuration."""
    lines: Sequence[ImportedLine]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user of the importer adds to the files."""

    resources: Mapping[str, str] = field(default_factory=dict)
    """Kubernetes' names of further resource types, by YARN's."""
    user_key: str = ""
    """Label or annotation that names a job's user."""
    master_label: str = ""
    """Label of pods that are application masters."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The parsed files of one cluster."""

    kind: str
    """`FAIR` or `CAPACITY`."""
    file: str
    """The scheduler's own file, for messages."""
    root: Element
    """Its root element."""
    settings: HadoopSettings
    """The properties of all configuration files together."""


def sorted_sources(paths: Iterable[Path]) -> Sources:
    """Read files and determine their scheduler.

    Raises:
        InvalidInput: A file cannot be read, or the files do not belong to exactly one scheduler.
    """
    own: list[tuple[str, Path, Element]] = []
    merged = HadoopSettings()
    problems: list[Problem] = []
    for path in paths:
        root = hadoopxml.read_file(Path("/dev/stdin") if str(path) == "-" else path)
        if root.name == "allocations":
            own.append((FAIR, path, root))
            continue
        settings = hadoopxml.settings_of(root, str(path))
        merged.file = merged.file or str(path)
        merged.by_name.update(settings.by_name)
        if any(setting.name.startswith(_CAPACITY_PREFIX) and setting.name.endswith(".queues") for setting in settings):
            own.append((CAPACITY, path, root))
    if not own:
        text = "no file declares queues; name a fair-scheduler.xml (<allocations>) or a capacity-scheduler.xml"
        problems.append(Problem("", text))
    problems += [Problem(str(path), "a second file that declares queues; import them apart") for _, path, _ in own[1:]]
    if problems:
        raise InvalidInput("what is to be imported", problems)
    kind, path, root = own[0]
    return Sources(kind, str(path), root, merged)


def resource_names(types: Iterable[str], options: ImportOptions) -> dict[str, str]:
    """Return Kubernetes' names of resource types beyond memory and vcores.

    Raises:
        InvalidInput: Some have no known name and the options give none.
    """
    found = {name: options.resources.get(name) or KNOWN_RESOURCES.get(name, "") for name in types}
    problems = [
        Problem(name, f"what is it called in Kubernetes? add --resource {name}=<name>")
        for name, resource in found.items()
        if not resource
    ]
    if problems:
        raise InvalidInput("resource types", problems)
    return found


def queue_names(paths: Iterable[str]) -> dict[str, str]:
    """Return names in Kubernetes for queues by their paths: ``root.Prod.ETL_1`` becomes ``prod-etl-1``."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in paths:
        plain = re.sub(r"[^a-z0-9-]", "-", path.removeprefix("root.").lower()).strip("-")
        plain = plain[:_LONGEST_NAME].strip("-") or "queue"
        name, number = plain, 2
        while name in taken:
            name, number = f"{plain[: _LONGEST_NAME - 4]}-{number}", number + 1
        taken.add(name)
        names[path] = name
    return names


def fits_annotation(name: str) -> bool:
    """Return whether a name may be the last part of an annotation's key."""
    return _ANNOTATION_NAME.fullmatch(name) is not None
