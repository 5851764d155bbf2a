"""Files that stand beside a trace and belong to it: its machines, and what its run times are computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from strato.sim.traces.input import InputFile

_MORE = ("", ".gz")


def _beside(path: Path, names: Sequence[str], *, above: bool = False) -> list[Path]:
    """Return the first of those files that is there, in the file's folder or the one above."""
    folders = [path.parent, path.parent.parent] if above else [path.parent]
    candidates = (folder / f"{name}{end}" for folder in folders for name in names for end in _MORE)
    return [found for found in candidates if found.is_file()][:1]


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[0]


def _gavel(path: Path) -> list[Path]:
    return _beside(path, ["simulation_throughputs.json"], above=True) + _beside(path, ["cluster_specs.json"])


_OPENB_NODES = "openb_node_list_all_node.csv"
COMPANIONS: Final[Mapping[str, Callable[[Path], list[Path]]]] = {
    "swf": lambda path: _beside(path, [f"{_stem(path)}.machines"]),
    "openb": lambda path: [] if "_node_list" in path.name else _beside(path, [_OPENB_NODES], above=True),
    "gavel": lambda path: [] if ".json" in path.suffixes else _gavel(path),
    "philly-json": lambda path: _beside(path, ["cluster_machine_list"]),
}
"""Format → finds what belongs to a file of it."""


def with_companions(kind: str, files: Sequence[InputFile]) -> Sequence[InputFile]:
    """Return the files of a trace and, where one file was named, what stands beside it."""
    find = COMPANIONS.get(kind)
    if find is None or len(files) != 1 or files[0].member or not files[0].path.is_file():
        return files
    return [*files, *(InputFile(path) for path in find(files[0].path) if path != files[0].path)]
