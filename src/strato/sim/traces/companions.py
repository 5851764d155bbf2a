"""Finds the files that belong to a trace and lie beside it, such as its machines or throughputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from strato.sim.traces.input import InputFile

_MORE = ("", ".gz")


def _beside(path: Path, names: Sequence[str], *, above: bool = False) -> list[Path]:
    """Return the first existing file of these names in the folder of a path, or with ``above`` in the one above."""
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
"""Name of a format → the function that finds the companions of a file."""


def with_companions(kind: str, files: Sequence[InputFile]) -> Sequence[InputFile]:
    """Return the files of a trace and, if it is a single file, its companions."""
    find = COMPANIONS.get(kind)
    if find is None or len(files) != 1 or files[0].member or not files[0].path.is_file():
        return files
    return [*files, *(InputFile(path) for path in find(files[0].path) if path != files[0].path)]
