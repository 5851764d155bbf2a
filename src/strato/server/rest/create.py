"""The steps of a creation.

Steps whose inputs are cached (`strato.server.rest.createcache`) are skipped: those that read the spec if an object with
an equal spec was accepted, and those that read the metadata if these match a template.
"""

from __future__ import annotations

from strato.api import catalog
from strato.api.status import invalid, required
from strato.http.parser import MAX_BODY_BYTES
from strato.server import definitions, pathidentity, preparation
from strato.server.dynamicadmission import typechecking
from strato.server.preparation import encode
from strato.server.registry import Served
from strato.server.rest import certificaterequests, ownership, pipeline, storing
from strato.server.rest.pipeline import AGAIN, KINDS, METADATA, NEW, REST, STATUS, DeclaredStep, Draft
from strato.server.rest.state import State
from strato.server.rest.stored import Stored
from strato.server.strategies import strategy_of


def _name_namespace(_state: State, draft: Draft) -> None:
    pathidentity.check_namespace(draft.served.kind, draft.obj, draft.target.namespace)


def _drop_repeated_owners(_state: State, draft: Draft) -> None:
    draft.warnings += preparation.unique_owners(draft.obj["metadata"])


def _check_namespace_is_open(state: State, draft: Draft) -> None:
    name = draft.obj["metadata"].get("name", "")
    state.check_namespace_open(draft.served.kind, draft.target.namespace, name)


def _begin_metadata(_state: State, draft: Draft) -> None:
    preparation.begin_metadata(draft.obj["metadata"])
    ownership.put_entries(draft)


def _number_template(_state: State, draft: Draft) -> None:
    preparation.number_template(draft.obj, None)


def _identify(state: State, draft: Draft) -> None:
    preparation.identify(draft.served, draft.obj["metadata"], state.clock, state.rng)


def _begin_status(_state: State, draft: Draft) -> None:
    preparation.begin_status(draft.served, draft.obj)


def _require_name(state: State, draft: Draft) -> None:
    if not draft.obj["metadata"].get("name"):
        pipeline.validate(state, draft)  # raises if there are other causes, which come first
        raise invalid(draft.served.kind, "", [required("metadata.name", "name or generateName is required")])


def _prepare(state: State, draft: Draft) -> None:
    """Fill in the members of some kinds that only the server sets."""
    kind, obj = draft.served.kind, draft.obj
    if kind is catalog.NAMESPACE:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj["status"] = {"phase": "Active"}
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    elif kind is catalog.CUSTOMRESOURCEDEFINITION:
        obj["status"] = {}
        definitions.prepare(obj, state.clock.now(), None, state.definitions((obj.get("spec") or {}).get("group")))
    elif kind is catalog.PERSISTENTVOLUME:
        obj["status"]["lastPhaseTransitionTime"] = obj["metadata"]["creationTimestamp"]
    elif kind is catalog.VALIDATINGADMISSIONPOLICY:
        obj["status"] = typechecking.status_of(obj, state.registry)
    first_status = strategy_of(draft.served).first_status
    status = first_status(obj, obj["metadata"]["creationTimestamp"]) if first_status is not None else None
    if status is not None:
        obj["status"] = status


def _find_key(state: State, draft: Draft) -> None:
    draft.key = storing.free_key(state, draft.served.kind, draft.obj["metadata"])


def _store(state: State, draft: Draft) -> None:
    kind, known = draft.served.kind, draft.known
    if known is None:
        draft.body = storing.store(state, draft.request, kind, draft.key, draft.obj, draft.texts)
        return
    accepted, metadata = known.accepted, draft.obj["metadata"]
    inputs, uid, time = accepted.inputs, metadata["uid"], metadata["creationTimestamp"]
    if known.begin:
        own = (inputs.head, known.begin, uid.encode(), time.encode(), inputs.generation)
        start = b'%b%b,"uid":"%b","creationTimestamp":"%b"%b,"resourceVersion":"' % own
    else:
        start = b'%b%b,"resourceVersion":"' % (inputs.head, encode(metadata)[:-1])
    members, text = accepted.at(time)
    draft.body = b'%b%d"}%b' % (start, state.store.next_revision(), text)
    if len(draft.body) > MAX_BODY_BYTES:
        raise preparation.too_large(kind, draft.obj)
    state.store.write(kind.resource, draft.key, draft.body)
    state.recent.note(draft.body, Stored(kind.api_version, uid, start, b'"}', members))


def _is_custom(_state: State, served: Served) -> bool:
    return served.is_custom


def _is_prepared(_state: State, served: Served) -> bool:
    first_status = strategy_of(served).first_status
    return served.kind in _PREPARED or first_status is not None


_PREPARED = (
    catalog.NAMESPACE,
    catalog.CUSTOMRESOURCEDEFINITION,
    catalog.PERSISTENTVOLUME,
    catalog.VALIDATINGADMISSIONPOLICY,
)


_MEMBERS = (REST, STATUS)
_ADMITTED = frozenset((*_MEMBERS, KINDS))
CREATION = (
    DeclaredStep(_name_namespace, frozenset((METADATA,))),
    DeclaredStep(_drop_repeated_owners, frozenset((METADATA,))),
    DeclaredStep(_check_namespace_is_open, frozenset((METADATA, NEW))),
    DeclaredStep(pipeline.fill_defaults, frozenset(_MEMBERS)),
    DeclaredStep(ownership.track, frozenset((METADATA, *_MEMBERS))),
    DeclaredStep(_begin_metadata, frozenset((METADATA,))),
    DeclaredStep(_number_template, frozenset((METADATA,)), pipeline.is_daemon_set),
    DeclaredStep(_identify, frozenset((METADATA, NEW))),
    DeclaredStep(_begin_status, frozenset(_MEMBERS)),
    DeclaredStep(_require_name, frozenset((METADATA,))),
    # The cache is not used for users with restricted rights, and admission declares what of the metadata it reads.
    DeclaredStep(pipeline.check_rights, _ADMITTED),
    DeclaredStep(pipeline.mutate, _ADMITTED, pipeline.has_rules("CREATE")),
    DeclaredStep(None, frozenset((*_MEMBERS, NEW)), yielding=pipeline.call_mutating),
    DeclaredStep(pipeline.fill_defaults, frozenset(_MEMBERS), _is_custom),
    DeclaredStep(pipeline.validate, frozenset((METADATA, *_MEMBERS))),
    DeclaredStep(pipeline.warn, frozenset((METADATA, REST)), pipeline.is_warned_about),
    DeclaredStep(_check_namespace_is_open, frozenset((METADATA, NEW, AGAIN))),
    DeclaredStep(pipeline.admit, _ADMITTED, pipeline.has_rules("CREATE")),
    DeclaredStep(certificaterequests.begin, frozenset((METADATA, REST, NEW)), certificaterequests.concerns),
    DeclaredStep(None, frozenset((*_MEMBERS, NEW)), yielding=pipeline.call_validating),
    DeclaredStep(_prepare, _ADMITTED, _is_prepared),
    DeclaredStep(None, frozenset(_MEMBERS), yielding=pipeline.encode_members),
    DeclaredStep(_check_namespace_is_open, frozenset((METADATA, NEW, AGAIN))),
    DeclaredStep(pipeline.convert, _ADMITTED | {NEW}, pipeline.is_converted),
    DeclaredStep(pipeline.count_quotas, frozenset((*_MEMBERS, NEW)), yielding=pipeline.count_quotas_yielding),
    DeclaredStep(_find_key, frozenset((METADATA, NEW))),
    DeclaredStep(pipeline.allocate, frozenset((*_MEMBERS, NEW)), pipeline.is_service),
    DeclaredStep(pipeline.charge_quotas, frozenset((*_MEMBERS, NEW))),
    DeclaredStep(_store, frozenset((METADATA, *_MEMBERS, NEW))),
)
KNOWN_REST = frozenset((*_MEMBERS, KINDS))
"""The inputs that are known of an object with a cached spec."""
KNOWN_TEXT = KNOWN_REST | {METADATA}
"""The inputs that are known if its metadata match a template too."""
