"""Rules of a job's volumes (spec volcano-api 16.2)."""

from __future__ import annotations

from collections.abc import Sequence

from strato.admission.request import Json
from strato.api import names

_BOTH = (
    "conflict: If you want to use an existing PVC, just specify VolumeClaimName. If you want to create a new PVC, "
    "you do not need to specify VolumeClaimName."
)


def volume_problem(volumes: Sequence[Json]) -> str:
    """Return the first thing wrong with the volumes, or ""."""
    paths: set[str] = set()
    for volume in volumes:
        path, name, claim = volume.get("mountPath"), volume.get("volumeClaimName"), volume.get("volumeClaim")
        if not path:
            return "mountPath is required;"
        if path in paths:
            return f"duplicated mountPath: {path};"
        paths.add(path)
        if claim is None and not name:
            return "either VolumeClaim or VolumeClaimName must be specified;"
        if claim is not None and name:
            return _BOTH
        if name and (complaints := names.check_subdomain(name)):
            return f"invalid VolumeClaimName {name} : {'; '.join(complaints)};"
    return ""
