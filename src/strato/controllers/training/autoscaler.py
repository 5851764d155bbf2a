"""The HorizontalPodAutoscaler of an elastic job with ``elasticPolicy.metrics`` (spec training H4).

It is deleted when the job ends, is suspended or has no metrics any more, because there is nothing to scale then.
"""

from __future__ import annotations

from collections.abc import Sequence

from strato.api import catalog
from strato.api.core import Pod
from strato.api.frameworks import JobShape
from strato.controllers.training.record import Companion
from strato.controllers.trainingoptions import PodOptions

KIND = catalog.HORIZONTALPODAUTOSCALER


def companions(shape: JobShape, _pods: Sequence[Pod], _options: PodOptions) -> Sequence[Companion]:
    """Return the autoscaler, if the job has metrics."""
    policy, kind = shape.spec.elastic_policy, shape.framework.kind
    if policy is None or not policy.metrics:
        return ()
    least, most = shape.bounds
    spec = {
        "scaleTargetRef": {"apiVersion": kind.api_version, "kind": kind.name, "name": shape.name},
        "minReplicas": max(1, least),
        "maxReplicas": max(1, most),
        "metrics": [dict(one) for one in policy.metrics],
    }
    body = {"metadata": {"name": shape.name}, "spec": spec}
    return (Companion(kind=KIND, body=body, member="spec", may_be_others=True),)
