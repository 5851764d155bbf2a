"""Schemas of nodes, networks and shards (spec volcano-api 9 to 12)."""

from __future__ import annotations

from strato.api.crds.rules import ValidationRule, add
from strato.api.crds.schema import (
    SUBDOMAIN,
    Schema,
    array,
    condition,
    integer,
    label_selector,
    mapping,
    obj,
    text,
    time,
)

MAX_MEMBERS = 16_000
"""Most members; so many names do not fit into one object of etcd's 1.5 MB anyway."""

_SELECTOR = (
    ValidationRule(
        "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
        "Either ExactMatch or RegexMatch or LabelMatch must be specified",
    ),
    ValidationRule(
        "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + (has(self.labelMatch) ? 1 : 0) <= 1",
        "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
    ),
)
_PATTERN = ValidationRule("''.matches(self) in [true, false]", "member regexMatch pattern is invalid")
"""Holds for every pattern that compiles; for others, the evaluation fails with the parser's message."""
_MEMBERS = ValidationRule("has(self.members)", "member must have at least one member")


def numatopology() -> dict[str, Schema]:
    """Return ``spec`` of a Numatopology."""
    allocation = obj({"name": text(), "allocations": mapping(text())})
    pod = obj({"uid": text(), "name": text(), "namespace": text(), "containerAllocations": array(allocation)})
    spec = obj(
        {
            "policies": mapping(text(), "Kubelet policies: CPUManagerPolicy, TopologyManagerPolicy."),
            "resReserved": mapping(text(), "Resources kept for the system."),
            "numares": mapping(
                obj({"allocatable": text(), "capacity": integer(bits=0)}), "Resources by NUMA node, like a cpuset."
            ),
            "cpuDetail": mapping(
                obj({name: integer(minimum=0, bits=0) for name in ("numa", "socket", "core")}),
                "Where each logical CPU sits.",
            ),
            "podAllocations": array(pod, "What pods hold."),
        },
        "The NUMA layout of the node of the same name.",
    )
    return {"spec": spec}


def hyper_node() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a HyperNode."""
    exact = obj(
        {"name": text("Name of the member.", min_length=1, max_length=253, pattern=SUBDOMAIN)}, required=["name"]
    )
    regex = obj(
        {"pattern": add(text("Pattern of names (RE2).", min_length=1, max_length=512), _PATTERN)}, required=["pattern"]
    )
    selector = obj(
        {"exactMatch": exact, "regexMatch": regex, "labelMatch": label_selector("Labels of nodes.")},
        "Exactly one of the three.",
    )
    add(selector, *_SELECTOR)
    member = obj(
        {"type": text("What the member is.", enum=["Node", "HyperNode"]), "selector": selector}, required=["type"]
    )
    spec = obj(
        {
            "tier": integer("How far up; lower is nearer.", minimum=0, bits=0),
            "tierName": text("Name of the tier.", max_length=253),
            "members": array(member, "What belongs to it.", min_items=1, max_items=MAX_MEMBERS),
        },
        "A network domain.",
        required=["tier"],
    )
    status = obj({"conditions": array(condition()), "nodeCount": integer("Nodes in it.", minimum=0, bits=64)})
    return {"spec": add(spec, _MEMBERS), "status": status}


def node_shard() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a NodeShard."""
    spec = obj(
        {"nodesDesired": array(text(), "Nodes the shard should have.")},
        "Owned by the sharding controller.",
        required=["nodesDesired"],
    )
    status = obj(
        {
            "lastUpdateTime": time("When it was written."),
            "nodesInUse": array(text(), "Nodes the scheduler uses."),
            "nodesToRemove": array(text(), "Nodes it should give up."),
            "nodesToAdd": array(text(), "Nodes it should take."),
        },
        "Owned by the scheduler of the same name.",
    )
    return {"spec": spec, "status": status}


def colocation_configuration() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a ColocationConfiguration."""
    ratio = {"minimum": 0, "maximum": 100, "bits": 0}
    memory = obj(
        {
            "highRatio": integer("memory.high in percent of the limit.", default=100, **ratio),
            "lowRatio": integer("memory.low in percent of the request.", default=0, **ratio),
            "minRatio": integer("memory.min in percent of the request.", default=0, **ratio),
        },
        "Memory quality of service.",
    )
    spec = obj({"selector": label_selector("Which pods."), "memoryQos": memory}, "How pods share a node.")
    status = obj({"conditions": array(condition(), list_type="map", list_map_keys=["type"])})
    return {"spec": spec, "status": status}
