"""`Reproduction`: compares our numbers with those of a paper, and writes them as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a paper's table."""

    row: str
    column: str
    ours: float
    reference: float
    tolerance: float
    """Largest difference that agrees, in the unit of the numbers; infinite if the reference is only shown."""
    spread: float | None = None
    """Standard deviation of our numbers over seeds."""

    @property
    def difference(self) -> float:
        """Our number minus the reference."""
        return self.ours - self.reference

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance."""
        return abs(self.difference) <= self.tolerance + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A paper's table with our numbers."""

    name: str
    title: str
    source: str
    """Where the reference numbers were published."""
    unit: str
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the differences."""
    details: dict[str, Any] = field(default_factory=dict)
    """Further results, for JSON."""

    @property
    def agrees(self) -> bool:
        """Whether every number is within its tolerance."""
        return all(cell.agrees for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as values that JSON has."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "unit": self.unit,
            "agrees": self.agrees,
            "cells": [
                {
                    "row": cell.row,
                    "column": cell.column,
                    "ours": _plain(cell.ours),
                    "reference": _plain(cell.reference),
                    "difference": _plain(cell.difference),
                    "tolerance": _plain(cell.tolerance),
                    "spread": cell.spread,
                    "agrees": cell.agrees,
                }
                for cell in self.cells
            ],
            "notes": list(self.notes),
            **({"details": self.details} if self.details else {}),
        }

    def to_text(self) -> str:
        """Return a table with a line for each number, ours beside the reference."""
        header = ("", "", "ours", "reference", "difference", "within")
        lines = [header, *(_line(cell) for cell in self.cells)]
        out = [self.title, f"Reference: {self.source}; numbers in {self.unit}.", "", *_aligned(lines)]
        if self.notes:
            out += ["", *self.notes]
        far = sum(not cell.agrees for cell in self.cells)
        judged = sum(math.isfinite(cell.tolerance) for cell in self.cells)
        out += ["", f"{judged - far} of {judged} numbers agree" + (f"; {far} do not" if far else "")]
        return "\n".join(out)


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _line(cell: Cell) -> tuple[str, ...]:
    within = f"{cell.tolerance:.4g}" if math.isfinite(cell.tolerance) else "-"
    numbers = (_number(cell.ours), _number(cell.reference), f"{cell.difference:+.4g}")
    return (cell.row, cell.column, *numbers, within if cell.agrees else f"{within} NO")


def _number(number: float) -> str:
    if not math.isfinite(number):
        return "-"
    return f"{number:,.0f}" if abs(number) >= 10_000 else f"{number:.6g}" if number == int(number) else f"{number:.3f}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return [
        "  ".join(
            text.ljust(width) if at < 2 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
