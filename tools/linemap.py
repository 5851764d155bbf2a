"""Which tests run which lines, as coverage.py saw it. What `tools/mutate.py` chooses a mutant's tests by."""

from __future__ import annotations

import ast
from pathlib import Path

from mutants import Mutant

MAX_TEST_SECONDS = 60.0
"""Of recorded processor time that a mutant's tests may take; the nearest and shortest come first."""
Spans = dict[str, dict[int, list[int]]]  # path: set of tests (as bits): lines


class Tests:
    """Which tests run which lines, by test file.

    Args:
        sources: Where the measured files are kept, by digest.
    """

    def __init__(self, sources: Path) -> None:
        self._sources = sources
        self.seconds: dict[str, float] = {}
        self._names: dict[str, list[str]] = {}  # test file: its tests
        self._lines: dict[str, Spans] = {}
        self._before: dict[str, dict[str, bytes]] = {}  # test file: sources as they were then

    def add(self, file: str, found: dict) -> None:
        """Take in what one test file runs."""
        self.seconds |= found["seconds"]
        self._names[file], self._lines[file], self._before[file] = found["tests"], found["lines"], found["sources"]

    def running(self, mutant: Mutant, source: bytes) -> list[str]:
        """Return the tests that run a mutant's lines, those of the nearest and shortest first."""
        now = _extents(source).get(mutant.function)
        chosen: list[str] = []
        for file, spans in self._lines.items():
            then = _extents(self._source(self._before[file].get(mutant.path, ""))).get(mutant.function)
            if now is None or then is None:
                continue
            shift = then[0] - now[0]
            wanted = (mutant.lines[0] + shift, mutant.lines[1] + shift) if then[2] == now[2] else (then[0] + 1, then[1])
            bits = 0
            for tests, lines in spans.get(mutant.path, {}).items():
                if any(wanted[0] <= line <= wanted[1] for line in lines):
                    bits |= tests
            chosen += [name for at, name in enumerate(self._names[file]) if bits >> at & 1 and name in self.seconds]
        stem = Path(mutant.path).stem
        chosen.sort(key=lambda name: (self.seconds[name] * (1.0 if stem in name else 3.0), name))
        within, total = [], 0.0
        for name in chosen:
            total += self.seconds[name]
            if total > MAX_TEST_SECONDS and within:
                break
            within.append(name)
        return within

    def _source(self, digest: str) -> bytes:
        path = self._sources / digest
        return path.read_bytes() if digest and path.exists() else b""


_EXTENTS: dict[bytes, dict[str, tuple[int, int, bytes]]] = {}


def _extents(source: bytes) -> dict[str, tuple[int, int, bytes]]:
    """Return first line, last line and text of every function."""
    if source not in _EXTENTS:
        found: dict[str, tuple[int, int, bytes]] = {}
        lines = source.splitlines()

        def walk(body: list[ast.stmt], prefix: str) -> None:
            for node in body:
                if isinstance(node, ast.ClassDef):
                    walk(node.body, f"{prefix}{node.name}.")
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    last = node.end_lineno or node.lineno
                    found[prefix + node.name] = (node.lineno, last, b"\n".join(lines[node.lineno - 1 : last]))

        walk(ast.parse(source).body, "")
        _EXTENTS[source] = found
    return _EXTENTS[source]
