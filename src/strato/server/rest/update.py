"""The steps of an update, by PUT or by a patch."""

from __future__ import annotations

import copy

from strato.api import catalog
from strato.api.defaults.service import keep_addresses
from strato.api.kinds import Kind
from strato.api.status import conflict
from strato.clock import format_time
from strato.server import definitions, preparation
from strato.server.dynamicadmission import typechecking
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import certificaterequests, ownership, pipeline, storing
from strato.server.rest.largewrites import Changed
from strato.server.rest.pipeline import AGAIN, KINDS, METADATA, NEW, REST, STATUS, DeclaredStep, Draft
from strato.server.rest.state import State

_STATUS_MEMBERS = ("apiVersion", "kind", "metadata", "status")
_CHANGEABLE = ("labels", "annotations", "finalizers", "ownerReferences", "generateName")
"""Members of metadata that an update may change."""
_PHASE_SINCE = "lastPhaseTransitionTime"


def _check_revision(_state: State, draft: Draft) -> None:
    asked = draft.obj["metadata"].get("resourceVersion")
    if asked and asked != _old(draft)["metadata"]["resourceVersion"]:
        raise conflict(draft.served.kind, draft.target.name)


def _check_fixed(_state: State, draft: Draft) -> None:
    if not (draft.served.is_custom and draft.target.subresource == "status"):  # its metadata is not looked at
        preparation.check_fixed(draft.served.kind, draft.obj, _old(draft))


def _find_status(_state: State, draft: Draft) -> None:
    """Set ``draft.status`` if only the status can have changed; if the metadata has, everything is checked."""
    metadata, before = draft.obj["metadata"], _old(draft)["metadata"]
    if any(metadata.get(member) != before.get(member) for member in _CHANGEABLE):
        return
    if draft.served.is_custom:
        draft.status = status_part(draft.served, draft.target, draft.obj, _old(draft))
    elif draft.target.subresource == "status":
        draft.status = {}


def _fill_defaults(state: State, draft: Draft) -> None:
    if draft.target.subresource != "finalize":  # whose purpose is to empty the list of finalizers
        pipeline.fill_defaults(state, draft)


def _carry_over(_state: State, draft: Draft) -> None:
    """Restore what this write may not change."""
    preparation.prepare_update(draft.served, draft.obj, _old(draft), subresource=draft.target.subresource)
    ownership.put_entries(draft)


def _date_phase(state: State, draft: Draft) -> None:
    """Note when a PersistentVolume changed its phase, unless the client gives the time."""
    if draft.target.subresource != "status":
        return
    status, before = draft.obj["status"], _old(draft).get("status") or {}
    given, known = status.get(_PHASE_SINCE), before.get(_PHASE_SINCE)
    if status.get("phase") != before.get("phase"):
        status[_PHASE_SINCE] = given if given and given != known else format_time(state.clock.now())
    elif not given and known:
        status[_PHASE_SINCE] = known


def _is_volume(_state: State, served: Served) -> bool:
    return served.kind is catalog.PERSISTENTVOLUME


def _keep_addresses(_state: State, draft: Draft) -> None:
    if not draft.target.subresource:
        keep_addresses(draft.obj, _old(draft))


def _finalize(_state: State, draft: Draft) -> None:
    """Take only the spec from the request, for the subresource ``finalize``."""
    if draft.target.subresource == "finalize":
        old, spec = _old(draft), dict(draft.obj.get("spec") or {})
        if not spec.get("finalizers"):
            spec.pop("finalizers", None)
        draft.obj = {**old, "metadata": {**old["metadata"]}, "spec": spec}


def _count_generation(_state: State, draft: Draft) -> None:
    if draft.target.subresource != "status":
        preparation.count_generation(draft.served.kind, draft.obj, _old(draft))


def _number_template(_state: State, draft: Draft) -> None:
    preparation.number_template(draft.obj, _old(draft))


def _prepare_definition(state: State, draft: Draft) -> None:
    obj = draft.obj
    obj["status"] = copy.deepcopy(obj.get("status") or {})  # a copy, as the old one is compared later
    group = (obj.get("spec") or {}).get("group")
    definitions.prepare(obj, state.clock.now(), draft.old, state.definitions(group))


def _is_definition(_state: State, served: Served) -> bool:
    return served.kind is catalog.CUSTOMRESOURCEDEFINITION


def _check_types(state: State, draft: Draft) -> None:
    """Type-check the expressions of an admission policy whose spec has changed."""
    obj = draft.obj
    if obj["metadata"].get("generation") != _old(draft)["metadata"].get("generation"):
        obj["status"] = {**(obj.get("status") or {}), **typechecking.status_of(obj, state.registry)}


def _check_unchanged(state: State, draft: Draft) -> None:
    """Raise `Changed` if the object was written while the loop served other requests."""
    if not draft.body and state.bucket(draft.served.kind).latest(draft.key) is not draft.before:
        raise Changed


def _settle(state: State, draft: Draft) -> None:
    """Skip the write if nothing has changed, and remove a terminating object that has lost its last finalizer."""
    kind, obj, old = draft.served.kind, draft.obj, _old(draft)
    obj["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    ownership.keep_times(obj, old)
    if obj == old:
        draft.body = encode(old)
    elif _may_go(kind, obj):
        draft.body = storing.remove(state, draft.request, kind, draft.key, obj, draft.texts, last=draft.before)


def _store(state: State, draft: Draft) -> None:
    if not draft.body:
        draft.body = storing.store(state, draft.request, draft.served.kind, draft.key, draft.obj, draft.texts)


def _old(draft: Draft) -> Json:
    assert draft.old is not None, "an update replaces something"
    return draft.old


def status_part(served: Served, target: ResourcePath, obj: Json, old: Json) -> Json | None:
    """Return all but the spec of a write that can only have changed status and metadata; otherwise None.

    The members left out were checked when they were written. They are unchanged in writes of the status subresource of
    a custom kind, and by a patch that has left every one of them the identical object.
    """
    if served.status is None:
        return None
    if target.subresource != "status":
        if target.subresource:
            return None
        if any(value is not old.get(name) for name, value in obj.items() if name not in _STATUS_MEMBERS):
            return None
    return {name: obj[name] for name in _STATUS_MEMBERS if name in obj}


def _may_go(kind: Kind, obj: Json) -> bool:
    """Whether a terminating object has no finalizer left."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind is catalog.NAMESPACE:
        return not obj.get("spec", {}).get("finalizers")
    return bool(metadata.get("deletionGracePeriodSeconds", 0) == 0)


_OBJECT = frozenset((METADATA, REST, STATUS))
_ALL = _OBJECT | {KINDS, NEW}
UPDATE = (
    DeclaredStep(_check_revision, frozenset((METADATA,))),
    DeclaredStep(_check_fixed, frozenset((METADATA,))),
    DeclaredStep(_find_status, _OBJECT),
    DeclaredStep(_fill_defaults, frozenset((REST, STATUS))),
    DeclaredStep(ownership.track, _OBJECT),
    DeclaredStep(_carry_over, _OBJECT),
    DeclaredStep(_date_phase, frozenset((STATUS, NEW)), _is_volume),
    DeclaredStep(certificaterequests.change, _ALL, certificaterequests.concerns),
    DeclaredStep(_keep_addresses, frozenset((REST,)), pipeline.is_service),
    DeclaredStep(_finalize, _OBJECT, lambda _, served: served.kind is catalog.NAMESPACE),
    DeclaredStep(pipeline.check_rights, _ALL),
    DeclaredStep(pipeline.mutate, _ALL, pipeline.has_rules("UPDATE")),
    DeclaredStep(None, _ALL, yielding=pipeline.call_mutating),
    DeclaredStep(_count_generation, frozenset((REST, STATUS))),
    DeclaredStep(_number_template, frozenset((METADATA, REST)), pipeline.is_daemon_set),
    DeclaredStep(_prepare_definition, _ALL, _is_definition),
    DeclaredStep(_check_types, _ALL, lambda _, served: served.kind is catalog.VALIDATINGADMISSIONPOLICY),
    DeclaredStep(pipeline.validate, _OBJECT),
    DeclaredStep(pipeline.warn, frozenset((METADATA, REST)), pipeline.is_warned_about_again),
    DeclaredStep(_check_unchanged, frozenset((NEW, AGAIN))),
    DeclaredStep(pipeline.admit, _ALL, pipeline.has_rules("UPDATE")),
    DeclaredStep(None, _ALL, yielding=pipeline.call_validating),
    DeclaredStep(None, frozenset((REST, STATUS)), yielding=pipeline.encode_members),
    DeclaredStep(_check_unchanged, frozenset((NEW, AGAIN))),
    DeclaredStep(pipeline.allocate, _ALL, pipeline.is_service),
    DeclaredStep(_settle, _ALL),
    DeclaredStep(pipeline.convert, _ALL, pipeline.is_converted),
    DeclaredStep(pipeline.count_quotas, frozenset((REST, STATUS, NEW)), yielding=pipeline.count_quotas_yielding),
    DeclaredStep(_check_unchanged, frozenset((NEW, AGAIN))),
    DeclaredStep(pipeline.charge_quotas, frozenset((REST, STATUS, NEW))),
    DeclaredStep(_store, _ALL),
)
