"""Convert amounts between YARN's types and the columns of the scheduler.

Memory counts in MiB on both sides. A vcore is one core; inside the plugin cores and other types count in thousandths,
as pods request them, so that half a core is not rounded away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strato.interop.yarn.fair.allocation import Allocations, Declared
from strato.interop.yarn.fair.notation import Limit
from strato.interop.yarn.resources import MEMORY, MOST, VCORES, Amounts, ResourceTypes, saturated
from strato.scheduler.model.resources import Dimensions, is_whole

_MIB = 1 << 20


def resource_pairs(value: Any) -> dict[str, str]:
    """Read an argument that names resources of Kubernetes: ``gpu=nvidia.com/gpu, fpga=example.com/fpga``.

    Raises:
        ValueError: The argument has another form.
    """
    if not isinstance(value, str):
        raise ValueError("expected text like 'gpu=nvidia.com/gpu', several with commas between")
    found: dict[str, str] = {}
    for part in value.split(",") if value.strip() else ():
        name, equals, resource = (side.strip() for side in part.partition("="))
        if not equals or not name or not resource:
            raise ValueError(f"{part.strip()!r}: expected <type in YARN>=<resource in Kubernetes>")
        found[name] = resource
    return found


@dataclass(frozen=True, slots=True)
class Units:
    """Conversion factors between YARN's types and the scheduler's columns."""

    types: ResourceTypes
    columns: tuple[int, ...]
    """The scheduler's column of each type."""
    per_unit: tuple[int, ...]
    """The plugin's units in one of YARN's, for each type."""
    per_column: tuple[int, ...]
    """The column's units in one of the plugin's, for each type."""

    @classmethod
    def of(cls, dims: Dimensions, others: Mapping[str, str]) -> Units:
        """Return the units of a world.

        Args:
            dims: The world's columns.
            others: Kubernetes' names of further types, by YARN's.
        """
        types = ResourceTypes.with_others(others)
        names = {MEMORY: "memory", VCORES: "cpu", **others}
        return cls(
            types,
            tuple(dims.column(names[name]) for name in types.names),
            tuple(1 if is_whole(names[name]) else 1000 for name in types.names),
            tuple(_MIB if names[name] == "memory" else 1 for name in types.names),
        )

    def asked(self, vector: Sequence[int]) -> Amounts:
        """Return the amounts of a vector of requests, rounded up."""
        return tuple(-(-int(vector[at]) // per) for at, per in zip(self.columns, self.per_column, strict=True))

    def held(self, vector: Sequence[int]) -> Amounts:
        """Return the amounts of a vector of a node's resources, rounded down."""
        return tuple(int(vector[at]) // per for at, per in zip(self.columns, self.per_column, strict=True))

    def text(self, amounts: Amounts) -> str:
        """Return amounts in words, in YARN's units: ``5120 MB, 2.5 vcores``."""
        parts = []
        for name, number, per in zip(self.types.names, amounts, self.per_unit, strict=True):
            shown = "unlimited" if number >= MOST else f"{number / per:g}" if per > 1 else str(number)
            parts.append(f"{shown} {'MB' if name == MEMORY else name}")
        return ", ".join(parts)

    def wire(self, amounts: Amounts, dims: Dimensions) -> dict[str, str]:
        """Return amounts as a Kubernetes resource list; unlimited numbers are left out."""
        vector = dims.zeros()
        for at, number, per in zip(self.columns, amounts, self.per_column, strict=True):
            if number < MOST:
                vector[at] = min(number * per, MOST)
        return {name: text for name, text in dims.to_wire(vector.tolist()).items() if text != "0"}

    def scaled_amounts(self, amounts: Sequence[int]) -> Amounts:
        """Convert amounts from YARN's units to the plugin's; missing types are 0."""
        padded = (*amounts, *((0,) * (len(self.types) - len(amounts))))
        return self._amounts(padded)

    # -- allocation files ----------------------------------------------------------------------------------------------

    def scaled(self, read: Allocations) -> Allocations:
        """Convert allocations to the plugin's units; vcores that a maximum does not name are unlimited."""
        defaults = replace(read.defaults, queue_max=self._limit(read.defaults.queue_max))
        queues = {name: self._declared(one) for name, one in read.queues.items()}
        return replace(read, queues=queues, defaults=defaults)

    def _declared(self, one: Declared) -> Declared:
        return replace(
            one,
            min_share=None if one.min_share is None else self._amounts(one.min_share),
            max_share=self._limit(one.max_share),
            max_child=self._limit(one.max_child),
            max_container=self._limit(one.max_container),
        )

    def _limit(self, limit: Limit | None) -> Limit | None:
        if limit is None or limit.is_percent:
            return limit
        return replace(limit, amounts=self._amounts(limit.amounts))

    def _amounts(self, amounts: Amounts) -> Amounts:
        return tuple(
            MOST if number < 0 else saturated(number * per) for number, per in zip(amounts, self.per_unit, strict=True)
        )
