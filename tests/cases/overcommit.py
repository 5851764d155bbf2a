"""Asks what a node offers: the kinds ``amplification`` and ``strato/amplify`` of the utilisation cases."""

from __future__ import annotations

import json
from typing import Any

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
