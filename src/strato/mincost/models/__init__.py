"""The shipped cost models, one file each, and how to load one of your own.

A model is a class with the methods of `base.CostModel`; see docs/cost-models.md.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path

from strato.errors import UsageError
from strato.mincost.models.base import CostModel
from strato.mincost.models.coco import Coco
from strato.mincost.models.cpu import CpuMemory
from strato.mincost.models.net import Net
from strato.mincost.models.octopus import Octopus
from strato.mincost.models.placement import Placement
from strato.mincost.models.quincy import Quincy
from strato.mincost.models.random_prices import RandomPrices
from strato.mincost.models.sjf import ShortestJobFirst
from strato.mincost.models.trivial import Trivial
from strato.mincost.models.void import Void
from strato.mincost.models.whare import WhareMap

SHIPPED: Mapping[str, type[CostModel]] = {
    model.name: model
    for model in (
        Trivial,
        RandomPrices,
        ShortestJobFirst,
        Quincy,
        WhareMap,
        Coco,
        Octopus,
        Void,
        Net,
        CpuMemory,
        Placement,
    )
}
ENTRY_POINTS = "strato.cost_models"


def load(name: str) -> type[CostModel]:
    """Find a model by name, number, entry point or ``path/to/file.py:Class``.

    Raises:
        UsageError: There is no such model, or it is none.
    """
    by_number = {str(model.number): model for model in SHIPPED.values() if model.number >= 0}
    found: object = SHIPPED.get(name) or by_number.get(name)
    if found is None and ".py:" in name:
        found = _from_file(name)
    if found is None:
        points = importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
        found = next(iter(points)).load() if points else None
    if found is None:
        raise UsageError(f"cost model {name!r} is unknown; shipped are {', '.join(SHIPPED)}; or write FILE.py:CLASS")
    if not (isinstance(found, type) and issubclass(found, CostModel)):
        raise UsageError(f"cost model {name!r} is no subclass of strato.mincost.models.base.CostModel")
    return found


def _from_file(name: str) -> object:
    path, _, attribute = name.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"cost model file {path!r} does not exist")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as err:
        raise UsageError(f"cost model file {path!r} does not load: {type(err).__name__}: {err}") from err
    found = getattr(module, attribute, None)
    if found is None:
        raise UsageError(f"cost model file {path!r} has no class {attribute!r}")
    return found
