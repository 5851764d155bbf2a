"""Defaults of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from strato.api.defaults.members import fill_empty
from strato.api.meta import Json


def default_flow_schema(obj: Json) -> None:
    """Default a FlowSchema."""
    spec = obj.get("spec") or {}
    if spec:
        fill_empty(spec, {"matchingPrecedence": 1000})


def default_priority_level(obj: Json) -> None:
    """Default a PriorityLevelConfiguration."""
    spec = obj.get("spec") or {}
    exempt, limited = spec.get("exempt"), spec.get("limited")
    if spec.get("type") == "Exempt":
        if exempt is None:
            exempt = spec["exempt"] = {}
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", 30)
        limited.setdefault("lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            fill_empty(queuing, {"queues": 64, "handSize": 8, "queueLengthLimit": 50})
