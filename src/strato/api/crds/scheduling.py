"""Schemas of scheduling.volcano.sh and bus.volcano.sh (spec volcano-api 5, 6 and 7)."""

from __future__ import annotations

from strato.api.crds.rules import TIERS, ValidationRule, add
from strato.api.crds.schema import (
    SUBDOMAIN,
    Schema,
    array,
    boolean,
    integer,
    label_selector,
    mapping,
    network_topology,
    obj,
    resources,
    text,
    time,
)

MAX_RESOURCES = 128
"""Most resources in one list, because rules check each."""

_WHOLE = "k in ['cpu', 'memory', 'ephemeral-storage'] || quantity(string(self[k])).isInteger()"
_AMOUNTS = (
    ValidationRule(
        "self.all(k, !quantity(string(self[k])).isLessThan(quantity('0')))",
        "amounts must be greater than or equal to 0",
    ),
    ValidationRule(f"self.all(k, {_WHOLE})", "amounts of this resource must be an integer"),
)
"""Rules of a resource list of a queue (spec volcano-api 18.2)."""


def _less(left: str, right: str) -> str:
    return f"quantity(string({left})).isLessThan(quantity(string({right})))"


_QUEUE = (
    ValidationRule(
        "!has(self.guarantee) || !has(self.guarantee.resource) || self.guarantee.resource.all(k, has(self.deserved) && "
        f"k in self.deserved && !{_less('self.deserved[k]', 'self.guarantee.resource[k]')})",
        "deserved must be >= guarantee",
    ),
    ValidationRule(
        "!has(self.deserved) || !has(self.capability) || self.deserved.all(k, !(k in self.capability) || "
        f"!{_less('self.capability[k]', 'self.deserved[k]')})",
        "deserved must be <= capability",
    ),
)
QUEUE_ROOT = (
    ValidationRule(
        "!has(self.spec) || !has(self.spec.parent) || self.metadata.name == 'root' || "
        "self.spec.parent != self.metadata.name",
        "a queue cannot use itself as parent",
        "'queue ' + self.metadata.name + ' cannot use itself as parent'",
    ),
)
"""Rules of the whole object."""


def _amounts(description: str) -> Schema:
    schema = add(resources(description), *_AMOUNTS)
    schema["maxProperties"] = MAX_RESOURCES
    schema["additionalProperties"]["maxLength"] = 64
    return schema


def pod_group() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a PodGroup."""
    policy = obj(
        {
            "name": text("Name of the policy.", max_length=253),
            "networkTopology": add(network_topology(), TIERS),
            "subGroupSize": integer("Pods per sub-group.", minimum=1, default=1),
            "minSubGroups": integer("Sub-groups that must run.", minimum=0, default=0),
            "labelSelector": label_selector("Which pods of the group."),
            "matchLabelKeys": array(
                text(), "Pods with equal values of these labels form a sub-group.", list_type="atomic"
            ),
        }
    )
    spec = obj(
        {
            "minMember": integer("Pods that must run at once.", minimum=0),
            "minTaskMember": mapping(integer(), "The same for each task."),
            "queue": text("Queue of the group.", max_length=253, pattern=SUBDOMAIN, default="default"),
            "priorityClassName": text("Priority class of the group.", max_length=253),
            "minResources": resources("What must be free for the group to be admitted; absent: nothing."),
            "networkTopology": add(network_topology(), TIERS),
            "subGroupPolicy": array(policy, "Groups within the group."),
        },
        "What the group needs.",
    )
    condition = obj(
        {
            "type": text("Unschedulable or Scheduled."),
            "status": text("Whether it holds."),
            "transitionID": text("Scheduling session that wrote it."),
            "lastTransitionTime": time("When it was written."),
            "reason": text("Why, in one word."),
            "message": text("Why, for people."),
        }
    )
    status = obj(
        {
            "phase": text("Where the group is.", enum=["Pending", "Inqueue", "Running", "Unknown", "Completed"]),
            "conditions": array(condition, "What the scheduler found."),
            "running": integer("Running pods.", minimum=0),
            "succeeded": integer("Succeeded pods.", minimum=0),
            "failed": integer("Failed pods.", minimum=0),
        },
        "How the group is doing.",
    )
    return {"spec": spec, "status": status}


def _node_groups(description: str) -> Schema:
    return obj(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": array(text(), "Node groups; a must."),
            "preferredDuringSchedulingIgnoredDuringExecution": array(text(), "Node groups; a wish."),
        },
        description,
    )


def queue() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a Queue."""
    cluster = obj({"name": text(), "weight": integer(), "capacity": resources()})
    spec = obj(
        {
            "weight": integer("Share of the queue.", minimum=1, maximum=65535, default=1),
            "capability": _amounts("Upper limit; a resource that is absent has none."),
            "deserved": _amounts("Share that others give back when asked."),
            "guarantee": obj({"resource": _amounts("Amounts.")}, "Resources kept for this queue alone."),
            "reclaimable": boolean("Whether other queues may reclaim from this one.", default=True),
            "extendClusters": array(cluster, "Other clusters that jobs may be forwarded to."),
            "affinity": obj(
                {
                    "nodeGroupAffinity": _node_groups("Node groups the queue uses."),
                    "nodeGroupAntiAffinity": _node_groups("Node groups the queue avoids."),
                },
                "Which node groups the queue uses.",
            ),
            "type": text("Free text.", max_length=253),
            "parent": text("Queue above this one; root when empty.", max_length=253, pattern=SUBDOMAIN),
            "priority": integer("A higher one is served first and reclaimed from last.", minimum=0),
            "dequeueStrategy": text(
                "fifo: a job that does not fit blocks those behind; traverse: it is passed.",
                enum=["fifo", "traverse"],
                default="traverse",
            ),
        },
        "What the queue may use.",
    )
    counters = {
        name: integer(f"Number of {name} pod groups.", minimum=0)
        for name in ("unknown", "pending", "running", "inqueue", "completed")
    }
    status = obj(
        {
            "state": text("Whether the queue takes jobs.", enum=["Open", "Closed", "Closing", "Unknown"]),
            **counters,
            "reservation": obj({"nodes": array(text()), "resource": resources()}, "What is kept for the queue."),
            "allocated": resources("What its jobs use."),
        },
        "How the queue is doing.",
    )
    return {"spec": add(spec, *_QUEUE), "status": status}


def command() -> dict[str, Schema]:
    """Return the members of a Command, which has no spec."""
    target = obj(
        {
            "apiVersion": text(),
            "kind": text(),
            "name": text(),
            "uid": text(),
            "controller": boolean(),
            "blockOwnerDeletion": boolean(),
        },
        "The job or queue.",
        required=["apiVersion", "kind", "name", "uid"],
        atomic=True,
    )
    return {
        "action": text("What to do."),
        "target": target,
        "reason": text("Why, in one word."),
        "message": text("Why, for people."),
    }
