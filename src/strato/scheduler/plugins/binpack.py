"""binpack: fill nodes up, by the weighted mean of the fractions used after placing (spec volcano-plugins 14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.model.answers import PACK, ResourceTerm
from strato.scheduler.model.resources import CPU, MEMORY, counts


@dataclass(frozen=True, slots=True, kw_only=True)
class BinpackArgs:
    """Arguments, as written under ``arguments:`` of this plugin."""

    weight: int = arg("binpack.weight", 1)
    """Factor of the whole score; 0 switches the plugin off. Default 1."""
    cpu: int = arg("binpack.cpu", 1)
    """Weight of cpu; negative counts as 1. Default 1."""
    memory: int = arg("binpack.memory", 1)
    """Weight of memory; negative counts as 1. Default 1."""
    resources: str = arg("binpack.resources", "")
    """Further resources that count, separated by commas. Default none."""
    resource_weights: dict[str, int] = field(
        default_factory=dict, metadata={"key": "binpack.resources.*", "minimum": None}
    )
    """Weight per further resource; negative counts as 1. Default 1."""


class Binpack(Plugin):
    """Prefer the fullest node the task fits on."""

    name = "binpack"
    job_facts = ()
    args_type = BinpackArgs

    def off_points(self) -> frozenset[str]:
        """Weight 0 means no score at all."""
        return frozenset(("resource_terms",)) if self.args.weight == 0 else frozenset()

    def resources(self) -> Sequence[str]:
        """Return the further resources that count."""
        return [name for name in (part.strip() for part in self.args.resources.split(",")) if counts(name)]

    def open(self, ssn: CycleContext) -> None:
        """Resolve resource names to columns."""
        weights = {ssn.world.column(n): self.args.resource_weights.get(n, 1) for n in self.resources()}
        weights |= {CPU: self.args.cpu, MEMORY: self.args.memory}
        self._weights = tuple((c, 1.0 if weight < 0 else float(weight)) for c, weight in weights.items() if weight)

    def resource_terms(self) -> Sequence[ResourceTerm]:
        """One packing term."""
        return (ResourceTerm(PACK, float(self.args.weight), self._weights),)
