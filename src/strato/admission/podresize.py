"""Refuses to resize a pod to more than its node has in all, because that could never be granted.

Source: the admission plug-in PodResizeValidator of Kubernetes.
"""

from __future__ import annotations

import msgspec

from strato.admission.request import AdmissionReader, AdmissionRequest
from strato.api import catalog
from strato.api.core import PodSpec
from strato.api.pods import effective_requests
from strato.api.quantity import Quantity, milli, parse, value
from strato.api.status import forbidden
from strato.errors import Cause

_UNITS = {"cpu": milli, "memory": value}
"""Units of the amounts in the message."""


def check_capacity(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a resize to more cpu or memory than the pod's node can allocate.

    Raises:
        Forbidden: The request is too large, or the node is unknown.
    """
    pod, old = request.object, request.old_object
    assert pod is not None
    assert old is not None
    node_name = pod["spec"].get("nodeName")
    if not node_name or pod["metadata"].get("generation") == old["metadata"].get("generation"):
        return
    node = reader.get(catalog.NODE, "", node_name)
    if node is None:
        raise forbidden(request.kind, request.name, f'node "{node_name}" not found')
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    wanted = effective_requests(msgspec.convert(pod["spec"], PodSpec))
    over = [
        f"{name}, requested: {count(str(wanted[name]))}, allocatable: {count(allocatable.get(name, 0))}"
        for name, count in _UNITS.items()
        if wanted.get(name, Quantity(0)) > parse(allocatable.get(name, 0))
    ]
    if over:
        text = f"node didn't have enough allocatable resources: {'; '.join(over)}"
        error = forbidden(request.kind, request.name, text)
        error.causes = (*error.causes, Cause("NodeCapacity", ""))
        raise error
