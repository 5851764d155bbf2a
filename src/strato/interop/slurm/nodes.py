"""Convert nodes and queues into the records of sinfo and scontrol. Pure.

Every queue may use every node, so each partition has all nodes; a node's state follows from its pods' requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strato.api import quantity
from strato.interop.slurm.formats import Record
from strato.interop.slurm.texts import hostlist

Json = dict[str, Any]

DEFAULT_PARTITION: Final = "default"
SINFO_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "P": ("partition", "PARTITION"),
    "R": ("partitionname", "PARTITION"),
    "a": ("available", "AVAIL"),
    "l": ("time", "TIMELIMIT"),
    "D": ("nodes", "NODES"),
    "t": ("statecompact", "STATE"),
    "T": ("statelong", "STATE"),
    "N": ("nodelist", "NODELIST"),
    "n": ("nodehost", "HOSTNAMES"),
    "c": ("cpus", "CPUS"),
    "C": ("cpusstate", "CPUS(A/I/O/T)"),
    "F": ("nodeaiot", "NODES(A/I/O/T)"),
    "A": ("nodeai", "NODES(A/I)"),
    "m": ("memory", "MEMORY"),
    "e": ("freemem", "FREE_MEM"),
    "G": ("gres", "GRES"),
    "z": ("socketcorethread", "S:C:T"),
    "d": ("disk", "TMP_DISK"),
    "w": ("weight", "WEIGHT"),
    "f": ("features", "AVAIL_FEATURES"),
    "E": ("reason", "REASON"),
}
SINFO_SHORT: Final = "%#P %.5a %.10l %.6D %.6t %N"
SINFO_SUMMARY: Final = "%#P %.5a %.10l %.16F %N"
SINFO_LONG: Final = "%#P %.5a %.10l %.6D %.11T %N"
SINFO_NODES: Final = "%#N %.6D %#P %6t"
SINFO_NODES_LONG: Final = "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E"

_COMPACT: Final = {
    "idle": "idle",
    "mixed": "mix",
    "allocated": "alloc",
    "drained": "drain",
    "draining": "drng",
    "down": "down",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node with the requests of its pods."""

    name: str
    state: str
    cpus: int
    used_cpus: int
    memory_mebibytes: int
    used_mebibytes: int
    gpus: int
    reason: str = "none"


def node_views(nodes: Sequence[Json], pods: Sequence[Json]) -> list[NodeView]:
    """Return nodes with the requests of the pods on them."""
    used: dict[str, list[int]] = {}
    for pod in pods:
        spec, status = pod.get("spec") or {}, pod.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            continue
        total = used.setdefault(spec["nodeName"], [0, 0])
        for container in spec.get("containers") or ():
            requests = (container.get("resources") or {}).get("requests") or {}
            total[0] += quantity.milli(requests.get("cpu", 0))
            total[1] += quantity.value(requests.get("memory", 0))
    return [_node(node, *used.get(node["metadata"]["name"], (0, 0))) for node in nodes]


def _node(node: Json, used_millicores: int, used_bytes: int) -> NodeView:
    status = node.get("status") or {}
    room = status.get("allocatable") or {}
    millicores = quantity.milli(room.get("cpu", 0))
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    cordoned = bool((node.get("spec") or {}).get("unschedulable"))
    if not ready:
        state = "down"
    elif cordoned:
        state = "draining" if used_millicores else "drained"
    elif not used_millicores:
        state = "idle"
    else:
        state = "allocated" if millicores - used_millicores < 1000 else "mixed"
    return NodeView(
        name=node["metadata"]["name"],
        state=state,
        cpus=millicores // 1000,
        used_cpus=-(-used_millicores // 1000),
        memory_mebibytes=quantity.value(room.get("memory", 0)) >> 20,
        used_mebibytes=used_bytes >> 20,
        gpus=quantity.value(room.get("nvidia.com/gpu", 0)),
        reason="Not responding" if state == "down" else "cordoned" if cordoned else "none",
    )


def partition_records(
    queues: Sequence[Json], nodes: Sequence[NodeView], *, by_state: bool, by_node: bool = False
) -> list[Record]:
    """Return the lines of sinfo: for each partition its nodes, all together, by state, or one by one."""
    records = []
    for queue in queues:
        name = queue["metadata"]["name"]
        if name == "root":
            continue
        is_open = ((queue.get("status") or {}).get("state") or "Open") == "Open"
        groups = _groups(nodes, by_state=by_state, by_node=by_node)
        records += [_record(name, is_open, group) for group in groups]
    if by_node:
        records.sort(key=lambda one: (one["nodelist"], one["partition"]))
    return records


def _groups(nodes: Sequence[NodeView], *, by_state: bool, by_node: bool) -> list[list[NodeView]]:
    if by_node:
        return [[node] for node in nodes]
    if not by_state:
        return [list(nodes)]
    states: dict[str, list[NodeView]] = {}
    for node in nodes:
        states.setdefault(node.state, []).append(node)
    order = list(_COMPACT)
    return [states[state] for state in sorted(states, key=order.index)] or [[]]


def _record(partition: str, is_open: bool, group: Sequence[NodeView]) -> Record:
    used = [node for node in group if node.state in ("allocated", "mixed", "draining")]
    idle = [node for node in group if node.state == "idle"]
    other = len(group) - len(used) - len(idle)
    cpus = sum(node.cpus for node in group)
    busy = sum(node.used_cpus for node in group)
    gone = sum(node.cpus - node.used_cpus for node in group if node.state in ("down", "drained", "draining"))
    first = group[0] if group else None
    state = first.state if first is not None else "n/a"
    return {
        "partition": f"{partition}*" if partition == DEFAULT_PARTITION else partition,
        "partitionname": partition,
        "available": "up" if is_open else "down",
        "time": "infinite",
        "nodes": str(len(group)),
        "statecompact": _COMPACT.get(state, state),
        "statelong": state,
        "nodelist": hostlist(node.name for node in group),
        "nodehost": first.name if first is not None else "",
        "cpus": _least(node.cpus for node in group),
        "cpusstate": f"{busy}/{max(0, cpus - busy - gone)}/{gone}/{cpus}",
        "nodeaiot": f"{len(used)}/{len(idle)}/{other}/{len(group)}",
        "nodeai": f"{len(used)}/{len(idle)}",
        "memory": _least(node.memory_mebibytes for node in group),
        "freemem": _least(node.memory_mebibytes - node.used_mebibytes for node in group),
        "gres": f"gpu:{first.gpus}" if first is not None and first.gpus else "(null)",
        "socketcorethread": f"1:{first.cpus}:1" if first is not None else "",
        "disk": "0",
        "weight": "1",
        "features": "(null)",
        "reason": first.reason if first is not None else "none",
    }


def _least(numbers: Any) -> str:
    """Return the smallest number, with ``+`` if others are larger, as sinfo does."""
    values = sorted(numbers)
    if not values:
        return "0"
    return f"{values[0]}{'+' if values[-1] > values[0] else ''}"
