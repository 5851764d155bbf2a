"""Node admission: multiplies the raw amounts that kubelets publish by a node's ratios, and refuses invalid ratios.

Source: spec utilisation 1.1.
"""

from __future__ import annotations

from typing import Final

import msgspec

from strato.admission.request import AdmissionReader, AdmissionRequest, Denied
from strato.api.amplification import InvalidFactor, amplify_status, check_metadata
from strato.api.meta import ObjectMeta

WEBHOOK: Final = "validatenode.strato.dev"


def amplify(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Amplify the allocatable amounts in a status update of a node; leave them raw if a ratio cannot be read."""
    assert request.object is not None
    try:
        amplify_status(request.object, request.old_object)
    except (InvalidFactor, ValueError):
        return  # a kubelet's update must not fail because of an annotation; the server validates the amounts


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a write that sets invalid factors or ratios."""
    assert request.object is not None
    metadata = _metadata(request.object)
    if request.old_object is not None:
        before = _metadata(request.old_object)
        if (before.labels, before.annotations) == (metadata.labels, metadata.annotations):
            return
    try:
        check_metadata(metadata)
    except InvalidFactor as error:
        raise Denied(WEBHOOK, f"node {request.name!r}: {error}") from None


def _metadata(obj: object) -> ObjectMeta:
    """Return the metadata of a node as a view; empty if malformed, which the server refuses by itself."""
    try:
        return msgspec.convert(obj["metadata"], ObjectMeta)  # type: ignore[index]  # a JSON object
    except msgspec.ValidationError:
        return ObjectMeta()
