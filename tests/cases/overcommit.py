"""Asks what a node offers: ``amplification``, ``strato/amplify`` and ``strato/pools`` of the cases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from strato.api.amplification import (
    RATIO,
    RAW,
    InvalidFactor,
    amounts_changed,
    amplified,
    amplify_status,
    final_ratios,
    ratio_of,
    ratios_text,
    read_raw,
)
from strato.api.quantity import milli
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.resources import Dimensions
from strato.scheduler.plugins.waterfilling import NodePool, QueueEntitlement, fill_pools

Json = dict[str, Any]


def amplification(given: Json) -> Json:
    """Answer a case of Koordinator's node webhook and node controller."""
    if "allocatableCpuMilli" in given:
        return _webhook(given)
    if "new" in given:
        return {"changed": amounts_changed(given["old"], given["new"])}
    try:
        if "configured" in given:
            normalisation = float(given["cpuNormalization"] or 1)
            return {"annotation": ratios_text(final_ratios(given["configured"], normalisation)), "error": False}
        return {"ratio": ratio_of(given["annotation"], given["resource"]), "error": False}
    except InvalidFactor:
        return {"annotation": None, "ratio": -1, "error": True}


def _webhook(given: Json) -> Json:
    annotations = {}
    if given["ratio"] is not None:
        annotations[RATIO] = json.dumps(given["ratio"])
    if given.get("rawAnnotation") is not None:
        raw = {name.removesuffix("Milli"): f"{value}m" if isinstance(value, int) else value
               for name, value in given["rawAnnotation"].items()}  # fmt: skip
        annotations[RAW] = json.dumps(raw)
    amount = given["allocatableCpuMilli"]
    node: Json = {"metadata": {"annotations": annotations}, "status": {"allocatable": {"cpu": f"{amount}m"}}}
    old = given.get("oldAllocatableCpuMilli")
    before: Json = {"metadata": {"annotations": dict(annotations)}}
    if old is not None:
        before["status"] = {"allocatable": {"cpu": f"{old}m"}}
    elif RAW in annotations:
        before["status"] = {"allocatable": {"cpu": f"{amount}m"}}
    amplify_status(node, before)
    noted = node["metadata"]["annotations"].get(RAW)
    cpu = read_raw(noted).get("cpu")
    return {
        "allocatableCpuMilli": milli(node["status"]["allocatable"]["cpu"]),
        "rawCpuMilli": None if cpu is None else cpu.milli_value,
    }


def amplify(given: Json) -> Json:
    """Answer what so many milli-cpu count as."""
    return {"allocatableMilli": amplified(given["rawMilli"], given["overcommit"], given["normalisation"])}


def pools(given: Json) -> Json:
    """Answer what queues deserve of pools, all in one resource."""
    totals = given["pools"]
    if not isinstance(totals, dict):
        totals = {one["name"]: one for one in totals}
    amounts = {name: one if isinstance(one, int | float) else _pool_amount(one) for name, one in totals.items()}
    whole = np.array([float(sum(amounts.values())), 0.0, 0.0])
    zero = np.zeros(3, np.int64)
    queues = {}
    for one in given["queues"]:
        request, cap = one.get("request", 10 * whole[0]), one.get("capability", whole[0])
        queues[one["name"]] = QueueEntitlement(
            queue=Queue(one["name"], Dimensions()),
            weight=float(one.get("weight", 1)),
            guarantee=np.array([float(one.get("guarantee", 0)), 0.0, 0.0]),
            real_capability=np.minimum(whole, np.array([float(cap), 0.0, 0.0])),
            request=np.array([float(request), 0.0, 0.0]),
            inqueue=zero,
            elastic=zero,
        )
    made = [
        NodePool(
            total=np.array([float(amount), 0.0, 0.0]),
            members=[one["name"] for one in given["queues"] if name in one.get("pools", amounts)],
        )
        for name, amount in amounts.items()
    ]
    fill_pools(queues, made)
    return {"deserved": {name: float(one.deserved[0]) for name, one in queues.items()}}


def _pool_amount(one: Json) -> float:
    return float(one["total"] if "total" in one else one["nodes"] * one.get("perNode", one.get("size", 1)))
