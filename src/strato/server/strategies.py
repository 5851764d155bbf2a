"""Behaviour of kube-apiserver that differs between kinds; found by requests to one (v1.36) for every kind.

One is our own: a Volcano Job starts with phase Pending, as pods and claims do. With Volcano its controller writes that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strato.api import catalog
from strato.api.defaults import jobs
from strato.api.kinds import Kind
from strato.server.registry import Served


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the server treats writes of a kind."""

    counts_generations: bool = False
    """``metadata.generation`` starts at 1 and grows with every change of the desired state."""
    returns_deleted: bool = False
    """A deletion is answered with the last state of the object, not a ``Status``."""
    created_by_update: bool = False
    """An update of a missing object creates it."""
    orphans: bool = False
    """A deletion without a propagation policy orphans dependents."""
    has_dependents: bool = True
    """Propagation policies count; without it, a deletion removes the object at once."""
    updates_blindly: bool = True
    """An update without a resource version overwrites any newer state."""
    first_status: Callable[[Mapping[str, Any], str], dict[str, Any] | None] | None = None
    """Returns a custom kind's initial status, from the stored object and its creation time."""


_CUSTOM = Strategy(counts_generations=True, updates_blindly=False)
_CUSTOM_JOB = Strategy(counts_generations=True, updates_blindly=False, first_status=jobs.first_status)
_PLAIN = Strategy()
_COUNTED = Strategy(counts_generations=True)
_GUARDED = Strategy(counts_generations=True, updates_blindly=False)
_RETURNED = Strategy(returns_deleted=True)
_BOTH = Strategy(counts_generations=True, returns_deleted=True)
_ORPHANING = Strategy(counts_generations=True, orphans=True)
_UPSERTED = Strategy(created_by_update=True)
_GUARDED_RETURNED = Strategy(returns_deleted=True, updates_blindly=False)

_BY_KIND = {
    **dict.fromkeys(
        (
            catalog.DAEMONSET,
            catalog.DEPLOYMENT,
            catalog.REPLICASET,
            catalog.STATEFULSET,
            catalog.CRONJOB,
            catalog.ENDPOINTSLICE,
            catalog.INGRESSCLASS,
            catalog.INGRESS,
            catalog.NETWORKPOLICY,
            catalog.PRIORITYCLASS,
            catalog.FLOWSCHEMA,
            catalog.PRIORITYLEVELCONFIGURATION,
        ),
        _COUNTED,
    ),
    **dict.fromkeys(
        (
            catalog.CUSTOMRESOURCEDEFINITION,
            catalog.MUTATINGWEBHOOKCONFIGURATION,
            catalog.VALIDATINGWEBHOOKCONFIGURATION,
            catalog.MUTATINGADMISSIONPOLICY,
            catalog.MUTATINGADMISSIONPOLICYBINDING,
            catalog.VALIDATINGADMISSIONPOLICY,
            catalog.VALIDATINGADMISSIONPOLICYBINDING,
            catalog.PODDISRUPTIONBUDGET,
            catalog.RESOURCESLICE,
        ),
        _GUARDED,
    ),
    **dict.fromkeys((catalog.POD, catalog.PODTEMPLATE, catalog.DEVICECLASS), _BOTH),
    **dict.fromkeys(
        (
            catalog.PERSISTENTVOLUMECLAIM,
            catalog.PERSISTENTVOLUME,
            catalog.RESOURCEQUOTA,
            catalog.SERVICEACCOUNT,
            catalog.RESOURCECLAIM,
            catalog.RESOURCECLAIMTEMPLATE,
            catalog.STORAGECLASS,
            catalog.VOLUMEATTRIBUTESCLASS,
        ),
        _RETURNED,
    ),
    **dict.fromkeys(
        (
            catalog.ENDPOINTS,
            catalog.LIMITRANGE,
            catalog.CLUSTERROLE,
            catalog.CLUSTERROLEBINDING,
            catalog.ROLE,
            catalog.ROLEBINDING,
        ),
        _UPSERTED,
    ),
    **dict.fromkeys((catalog.EVENT, catalog.EVENTS_EVENT), Strategy(created_by_update=True, has_dependents=False)),
    **dict.fromkeys((catalog.CSIDRIVER, catalog.CSINODE, catalog.VOLUMEATTACHMENT), _GUARDED_RETURNED),
    **dict.fromkeys((catalog.JOB, catalog.REPLICATIONCONTROLLER), _ORPHANING),
    catalog.SERVICE: Strategy(returns_deleted=True, created_by_update=True),
    **dict.fromkeys((catalog.LEASE, catalog.RUNTIMECLASS), Strategy(created_by_update=True, updates_blindly=False)),
    catalog.CSISTORAGECAPACITY: Strategy(updates_blindly=False),
}


_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_KEPT_BY_STATUS: dict[Kind, tuple[str, ...]] = {
    catalog.POD: ("ownerReferences",),
    catalog.DEPLOYMENT: ("labels",),
    **dict.fromkeys((catalog.FLOWSCHEMA, catalog.PRIORITYLEVELCONFIGURATION), (*_METADATA, "generateName")),
    **dict.fromkeys(
        (
            catalog.APISERVICE,
            catalog.RESOURCECLAIM,
            catalog.SERVICECIDR,
            catalog.VALIDATINGADMISSIONPOLICY,
            catalog.VOLUMEATTACHMENT,
        ),
        _METADATA,
    ),
}


def kept_by_status(kind: Kind) -> tuple[str, ...]:
    """Return the members of a built-in kind's metadata that a write of its status keeps as they are stored."""
    return _KEPT_BY_STATUS.get(kind, ())


def strategy_of(served: Served) -> Strategy:
    """Return how a kind is written."""
    if served.is_custom:
        return _CUSTOM_JOB if served.kind is catalog.VCJOB else _CUSTOM
    return strategy_of_kind(served.kind)


def strategy_of_kind(kind: Kind) -> Strategy:
    """Return how a built-in kind is written."""
    return _BY_KIND.get(kind, _PLAIN)
