"""Nodes: kubelets publish raw amounts, which are amplified on their way; factors that make no sense are refused.

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
    """Amplify what a status update of a node says is allocatable; a ratio that cannot be read leaves it raw."""
    assert request.object is not None
    try:
        amplify_status(request.object, request.old_object)
    except (InvalidFactor, ValueError):
        return  # an update of a kubelet must not fail for an annotation, and amounts are judged by the server


def validate(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse factors and ratios that cannot be used, where a write brings them."""
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
    """Return the metadata of a node as a view; what is malformed in it is the server's to refuse."""
    try:
        return msgspec.convert(obj["metadata"], ObjectMeta)  # type: ignore[index]  # a JSON object
    except msgspec.ValidationError:
        return ObjectMeta()
