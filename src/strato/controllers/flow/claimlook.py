"""Pods that check a claim for the path a step waits for. Pure: builds the pod and interprets how it ended.

The controller cannot read a claim's content; a pod that mounts the claim can. Such a pod checks once and ends, so that
it does not keep resources, nor a claim that only one node may mount. Its exit code is 0 when the path exists and 1 when
it does not. A pod that found the path is kept until the step's job is made: its phase is the only record of the result.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from strato.api.core import Pod
from strato.api.volcano.flow import ClaimPathProbe, JobFlow
from strato.controllers.flow.build import FLOW_API_VERSION, FLOW_KIND
from strato.controllers.owners import controller_reference

LOOK_DEADLINE_SECONDS: Final = 300
"""``activeDeadlineSeconds`` of such a pod. The controller starts another one when the step's next attempt is due."""

_MOUNT: Final = "/claim"
_SCRIPT: Final = '[ -e "$0" ] || [ -L "$0" ]'
_NOT_THERE: Final = 1
_MOST_OF_NAME: Final = 40


def look_name(flow: JobFlow, step: str, probe: ClaimPathProbe) -> str:
    """Return the name of the pod that checks a path; it differs for each flow, step, claim, path and image."""
    identity = "\0".join((flow.metadata.uid, step, probe.claim_name, probe.path, probe.image))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:10]
    return f"{flow.metadata.name[:_MOST_OF_NAME].rstrip('.-')}-look-{digest}"


def look_pod(flow: JobFlow, step: str, probe: ClaimPathProbe, image: str) -> dict[str, Any]:
    """Return the pod that checks a path. The path is an argument of the script, so that it cannot inject commands."""
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
    """Return why the path is not known to exist; empty when the pod found it."""
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
