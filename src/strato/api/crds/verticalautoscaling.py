"""Schemas of autoscaling.k8s.io/v1 (spec utilisation 6.1)."""

from __future__ import annotations

from strato.api.crds.schema import Schema, array, integer, mapping, obj, quantity, resources, text, time

_MODES = ("Off", "Initial", "Recreate", "InPlace", "InPlaceOrRecreate", "Auto")
_NAME = 253
_MOST = 500
"""Most containers of a pod, and most recommenders; far more than occur."""


def autoscaler() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a VerticalPodAutoscaler."""
    target = obj(
        {"apiVersion": text(max_length=_NAME), "kind": text(max_length=_NAME), "name": text(max_length=_NAME)},
        "The workload whose pods it is about.",
        required=["kind", "name"],
        atomic=True,
    )
    requirement = obj(
        {
            "resources": array(text(), "Resources that are looked at."),
            "changeRequirement": text(enum=["TargetHigherThanRequests", "TargetLowerThanRequests"]),
        },
        required=["changeRequirement", "resources"],
    )
    update = obj(
        {
            "updateMode": text("Off: only say; Initial: new pods; InPlace: running ones without restart.", enum=_MODES),
            "minReplicas": integer("Stored for updaters that evict.", minimum=0),
            "evictionRequirements": array(requirement, "Stored for updaters that evict.", max_items=_MOST),
        },
        "What is done with the recommendation.",
    )
    policy = obj(
        {
            "containerName": text("Name of the container; * is all others.", max_length=_NAME),
            "mode": text("Whether the container gets a recommendation.", enum=["Auto", "Off"]),
            "minAllowed": resources("No recommendation is below."),
            "maxAllowed": resources("No recommendation is above."),
            "controlledResources": array(text(), "Resources that are recommended; cpu and memory by default."),
            "controlledValues": text(
                "Whether limits change in proportion.", enum=["RequestsAndLimits", "RequestsOnly"]
            ),
            "oomBumpUpRatio": quantity("Stored for recommenders that read it."),
            "oomMinBumpUp": quantity("Stored for recommenders that read it."),
            "memoryAggregationIntervalSeconds": integer("Stored for recommenders that read it.", minimum=1),
            "memoryAggregationIntervalCount": integer("Stored for recommenders that read it.", minimum=1, bits=64),
        }
    )
    spec = obj(
        {
            "targetRef": target,
            "updatePolicy": update,
            "resourcePolicy": obj({"containerPolicies": array(policy, max_items=_MOST)}, "Bounds of containers."),
            "recommenders": array(
                obj({"name": text(max_length=_NAME)}, required=["name"]), "Who recommends.", max_items=_MOST
            ),
        },
        required=["targetRef"],
    )
    recommendation = obj(
        {
            "containerName": text("Name of the container."),
            "target": resources("What it shall request."),
            "lowerBound": resources("Less is too little."),
            "upperBound": resources("More is wasted."),
            "uncappedTarget": resources("The target without regard to the policy's bounds."),
        },
        required=["target"],
    )
    condition = obj(
        {
            "type": text("Type of the condition."),
            "status": text("True, False or Unknown."),
            "lastTransitionTime": time("When its status changed."),
            "reason": text("Why, in one word."),
            "message": text("Why, for people."),
        },
        required=["status", "type"],
    )
    status = obj(
        {
            "recommendation": obj({"containerRecommendations": array(recommendation)}),
            "observedGeneration": integer("Generation that the recommendation is for.", minimum=0, bits=64),
            "conditions": array(condition, list_type="map", list_map_keys=["type"]),
        }
    )
    return {"spec": spec, "status": status}


def checkpoint() -> dict[str, Schema]:
    """Return ``spec`` and ``status`` of a VerticalPodAutoscalerCheckpoint."""
    histogram = obj(
        {
            "referenceTimestamp": time("The instant that weights refer to."),
            "bucketWeights": mapping(integer(minimum=0, bits=64), "Weights in proportion, by bucket."),
            "totalWeight": {"type": "number", "format": "double"},
        }
    )
    status = obj(
        {
            "lastUpdateTime": time(),
            "version": text("Version of the histograms' layout."),
            "cpuHistogram": histogram,
            "memoryHistogram": histogram,
            "firstSampleStart": time(),
            "lastSampleStart": time(),
            "totalSamplesCount": integer(minimum=0, bits=0),
        }
    )
    return {"spec": obj({"vpaObjectName": text(), "containerName": text()}), "status": status}
