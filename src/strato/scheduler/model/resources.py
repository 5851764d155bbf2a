"""Resource vectors: one int64 column per resource dimension, in units that make them exact.

Units (spec scheduler-core 4): ``cpu`` in milli-cpu, ``memory`` in bytes, ``pods`` in pods, storage-like scalars
(``ephemeral-storage``, ``hugepages-*``, ``attachable-volumes-*``) whole, every other scalar in milli-units. Because the
columns are integers, the comparisons of the specification with their epsilon of 0.1 become plain ``<=``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from strato.api import quantity

Vector = npt.NDArray[np.int64]
"""One value per dimension; as long as `Dimensions.width`."""

FloatArray = npt.NDArray[np.float64]

CPU, MEMORY, PODS = 0, 1, 2
"""Columns every vector has."""

MOST = 1 << 53
"""Largest amount a quantity counts for (8 PiB of memory): sums over a cluster of them stay within int64."""

_FIRST = ("cpu", "memory", "pods")
_WHOLE_PREFIXES = ("ephemeral-storage", "hugepages-", "attachable-volumes-")


class Dimensions:
    """Names of the resource columns; grows when a new resource is seen.

    Attributes:
        names: Column names in order; the first three are cpu, memory and pods.
        width: Allocated columns, at least ``len(names)``; vectors have this many. Doubles when full.
    """

    def __init__(self, width: int = 8) -> None:
        self.names: list[str] = list(_FIRST)
        self.width = width
        self._column = {name: i for i, name in enumerate(_FIRST)}

    def column(self, name: str) -> int:
        """Return the column of a resource, made when it is new."""
        column = self._column.get(name)
        if column is None:
            column = self._column[name] = len(self.names)
            self.names.append(name)
            if column >= self.width:
                self.width *= 2
        return column

    def find(self, name: str) -> int | None:
        """Return the column of a resource that has been seen."""
        return self._column.get(name)

    def zeros(self) -> Vector:
        """Return a vector of nothing."""
        return np.zeros(self.width, np.int64)

    def vector(self, amounts: Mapping[int, int]) -> Vector:
        """Return the vector of ``column -> amount``."""
        out = np.zeros(self.width, np.int64)
        for column, amount in amounts.items():
            out[column] = amount
        return out

    def parse(self, resources: Mapping[str, str | int | float] | None) -> dict[int, int]:
        """Read a Kubernetes resource list as ``column -> internal amount``, without what `counts` excludes."""
        out: dict[int, int] = {}
        for name, text in (resources or {}).items():
            if counts(name):
                out[self.column(name)] = internal(name, text)
        return out

    def describe(self, vector: Iterable[float]) -> dict[str, float]:
        """Return ``name -> amount`` of the dimensions that are not zero; internal units."""
        return {name: amount for name, amount in zip(self.names, vector, strict=False) if amount}

    def base_units(self, vector: Iterable[float]) -> dict[str, float]:
        """Return ``name -> amount`` in cores, bytes and pieces; leave out zeros other than cpu and memory."""
        return {
            name: amount if is_whole(name) else amount / 1000
            for name, amount in zip(self.names, vector, strict=False)
            if amount or name in ("cpu", "memory")
        }

    def to_wire(self, vector: Iterable[int]) -> dict[str, str]:
        """Write a vector as a Kubernetes resource list; zero dimensions other than cpu and memory are left out."""
        return {
            name: to_quantity(name, int(amount))
            for name, amount in zip(self.names, vector, strict=False)
            if amount or name in ("cpu", "memory")
        }


def fit_width(vector: Vector, width: int) -> Vector:
    """Return the vector, lengthened with zeros when dimensions were added."""
    if vector.shape[-1] >= width:
        return vector
    out = np.zeros((*vector.shape[:-1], width), np.int64)
    out[..., : vector.shape[-1]] = vector
    return out


def counts(name: str) -> bool:
    """Whether a resource takes part in scheduling (spec scheduler-core 4)."""
    if name in ("cpu", "memory", "pods", "ephemeral-storage"):
        return True
    if name.startswith("count/"):
        return False
    if name.startswith("requests.") and "kubernetes.io/" not in name:
        return False  # a quota's name of a resource; the job controller's groups list it beside the resource itself
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def internal(name: str, text: str | float) -> int:
    """Return a quantity in the internal unit of its resource, rounded up.

    Raises:
        ValueError: The text is no quantity.
    """
    return max(-MOST, min(MOST, quantity.value(text) if is_whole(name) else quantity.milli(text)))


def is_whole(name: str) -> bool:
    """Whether a resource is counted in whole units internally, not in thousandths."""
    return name in ("memory", "pods") or name.startswith(_WHOLE_PREFIXES)


def to_quantity(name: str, amount: int) -> str:
    """Write an internal amount as a Kubernetes quantity."""
    if is_whole(name):
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def to_text(name: str, amount: float) -> str:
    """Write an internal amount as people do: ``8``, ``500m``, ``1.5``, ``1Gi``; at most two decimals."""
    if name == "memory" or name.startswith(("ephemeral-storage", "hugepages-")):
        return quantity.bytes_text(amount)
    if is_whole(name):
        return quantity.decimal_text(amount)
    return f"{amount:g}m" if abs(amount) < 1000 and amount % 1000 else quantity.decimal_text(amount / 1000)


def share(part: float, whole: float) -> float:
    """Return part/whole; where whole is 0: 0 if the part is 0 too, else 1."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole
