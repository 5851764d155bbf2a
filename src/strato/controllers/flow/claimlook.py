"""Pods that look into a claim for a step that waits for a path in it. Pure: what pod, and what its state says.

Only a pod sees what is in a claim. One looks once and ends, so that it holds neither room nor a claim that one node
alone may mount: 0 says that the path is there, 1 that it is not. The pod that found it stays until the step's job is
made; it is the memory of the answer.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from strato.api.core import Pod
from strato.api.volcano.flow import ClaimPathProbe, JobFlow
from strato.controllers.flow.build import FLOW_API_VERSION, FLOW_KIND
from strato.controllers.owners import controller_reference

LOOK_DEADLINE_SECONDS: Final = 300
"""After this long on its node a pod that looks is ended; another one looks later."""

_MOUNT: Final = "/claim"
_SCRIPT: Final = '[ -e "$0" ] || [ -L "$0" ]'
_NOT_THERE: Final = 1
_MOST_OF_NAME: Final = 40


def look_name(flow: JobFlow, step: str, probe: ClaimPathProbe) -> str:
    """Return the name of the pod that looks; it differs for each flow, step and path."""
    identity = "\0".join((flow.metadata.uid, step, probe.claim_name, probe.path, probe.image))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
    return f"{flow.metadata.name[:_MOST_OF_NAME].rstrip('.-')}-look-{digest}"


def look_pod(flow: JobFlow, step: str, probe: ClaimPathProbe, image: str) -> dict[str, Any]:
    """Return the pod that looks for a path; the path is an argument, never a part of its script."""
    path = f"{_MOUNT}/{probe.path.strip('/')}".rstrip("/")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": look_name(flow, step, probe),
            "namespace": flow.metadata.namespace,
            "annotations": {"strato.dev/looks-for": f"step {step}: {probe.path} in the claim {probe.claim_name}"},
            "ownerReferences": [controller_reference(FLOW_API_VERSION, FLOW_KIND, flow.metadata)],
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LOOK_DEADLINE_SECONDS,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "look",
                    "image": probe.image or image,
                    "command": ["sh", "-c", _SCRIPT, path],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "volumeMounts": [{"name": "claim", "mountPath": _MOUNT, "readOnly": True}],
                }
            ],
            "volumes": [
                {"name": "claim", "persistentVolumeClaim": {"claimName": probe.claim_name, "readOnly": True}},
            ],
        },
    }


def look_verdict(probe: ClaimPathProbe, pod: Pod) -> str:
    """Return why the path is not known to be there; empty when it is."""
    where = f"{probe.path!r} in the claim {probe.claim_name}"
    phase, name = pod.status.phase, pod.metadata.name
    if phase == "Succeeded":
        return ""
    if phase == "Failed":
        ended = [one.state.terminated for one in pod.status.container_statuses or () if one.state.terminated]
        if ended and ended[0].exit_code == _NOT_THERE:
            return f"{where} is not there yet"
        return f"the pod {name} could not look for {where}: {pod.status.reason or 'see its events'}"
    return f"the pod {name} looks for {where}; 'strato explain pod/{name}' says how it is doing"
