"""Creation: one list of steps, each of which declares what it reads of the new object.

A step is skipped when its inputs are cached (`strato.server.rest.createcache`): the steps about the spec for objects
with an equal spec, and those about the metadata if these fit a template. So each rule is in one place, and of several
errors the same one is reported whatever is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.status import invalid, required
from strato.api.wire import Request, Response
from strato.http.parser import MAX_BODY_BYTES
from strato.server import crd, preparation
from strato.server.flowcontrol.dispatch import Steps, at_once
from strato.server.path import ResourcePath
from strato.server.preparation import Json, encode
from strato.server.registry import Served
from strato.server.rest import quotas, storing
from strato.server.rest.createcache import Cached
from strato.server.rest.state import State
from strato.server.rest.stored import Stored
from strato.server.strategies import strategy_of


class Draft(msgspec.Struct, gc=False):
    """A new object on its way into the store."""

    request: Request
    target: ResourcePath
    served: Served
    obj: Json
    """As it was sent, then filled in."""
    warnings: list[str]
    known: Cached | None = None
    """What the cache knows of it."""
    due: quotas.Due = ()
    """What is to be charged to quotas."""
    key: str = ""
    body: bytes = b""
    """As it is stored."""
    asked: AdmissionRequest | None = None

    def admission_request(self) -> AdmissionRequest:
        """Return the admission request, one object for all rules."""
        if self.asked is None:
            self.asked = storing.admission_request(
                self.request, self.target, self.served.kind, "CREATE", self.obj, None
            )
        return self.asked


METADATA, REST, KINDS, NEW = "metadata", "rest", "kinds", "new"
"""What steps read: the metadata, all other members, the kinds that admission reads, and what is new each time (other
stored objects, time, random numbers)."""


class Creation:
    """Creates objects."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._steps: dict[Served, CreateSteps] = {}

    def at_once(self, draft: Draft, *, with_quotas: bool) -> Response:
        """Create an object in one go, and answer it; ``with_quotas``: whether there is any quota."""
        state, known = self._state, draft.known
        steps = self._plan(draft.served).at_once if known is None else _KNOWN_TEXT if known.begin else _KNOWN_REST
        for step in steps[with_quotas]:
            step(state, draft)
        return storing.answer(state, draft.request, draft.served.kind, draft.body, draft.warnings, 201)

    def sliced(self, draft: Draft) -> Steps[Response]:
        """Create an object of which nothing is known; what reads nothing but the object may take turns."""
        state = self._state
        for steps, manner in self._plan(draft.served).sliced:
            if manner == _IN_SLICES:
                yield partial(_run, steps, state, draft)
            elif manner == _COUNTING:
                if quotas.are_any(state):
                    draft.due = yield from quotas.due(state, draft.served.kind, draft.target.namespace, draft.obj)
            else:
                _run(steps, state, draft)
        return storing.answer(state, draft.request, draft.served.kind, draft.body, draft.warnings, 201)

    def _plan(self, served: Served) -> CreateSteps:
        """Return the steps that have something to do with a kind."""
        plan = self._steps.get(served)
        if plan is None:
            if len(self._steps) >= _KINDS_MAX:  # definitions came and went
                self._steps.clear()
            mine = [(step, reads) for step, reads in _STEPS if _concerns(self._state, step, served)]
            sliced = tuple((tuple(step for step, _ in run), manner) for manner, run in groupby(mine, _mode))
            plan = self._steps[served] = CreateSteps(sliced, _beside_quotas([step for step, _ in mine]))
        return plan


def _run(steps: Sequence[Step], state: State, draft: Draft) -> None:
    for step in steps:
        step(state, draft)


def _concerns(state: State, step: Step, served: Served) -> bool:
    """Whether a step may do anything to an object of a kind."""
    kind = served.kind
    if step in (_mutate, _admit):
        return state.admission.has_rules(kind, "CREATE")
    if step is _fill_defaults_again:
        return served.is_custom
    if step is _prepare:
        first_status = strategy_of(served).first_status
        return kind in (catalog.NAMESPACE, catalog.CUSTOMRESOURCEDEFINITION) or first_status is not None
    return True


def _mode(step: tuple[Step, frozenset[str]]) -> str:
    """Return how a step is run."""
    if step[0] is _count_quotas:
        return _COUNTING
    return _IN_SLICES if step[1] <= {METADATA, REST} else _AT_ONCE


_IN_SLICES, _COUNTING, _AT_ONCE = "in turn", "counting", "at once"
_KINDS_MAX = 512


def _name_namespace(_state: State, draft: Draft) -> None:
    preparation.check_namespace(draft.served.kind, draft.obj, draft.target.namespace)


def _drop_repeated_owners(_state: State, draft: Draft) -> None:
    draft.warnings += preparation.unique_owners(draft.obj["metadata"])


def _check_namespace_is_open(state: State, draft: Draft) -> None:
    name = draft.obj["metadata"].get("name", "")
    state.check_namespace_open(draft.served.kind, draft.target.namespace, name)


def _check_namespace_again(state: State, draft: Draft) -> None:
    """Check whether it was closed while other requests were served."""
    _check_namespace_is_open(state, draft)


def _fill_defaults(_state: State, draft: Draft) -> None:
    preparation.fill_defaults(draft.served, draft.obj)


def _begin_metadata(state: State, draft: Draft) -> None:
    preparation.begin_metadata(draft.obj["metadata"], state.rng)


def _identify(state: State, draft: Draft) -> None:
    preparation.identify(draft.served, draft.obj["metadata"], state.clock, state.rng)


def _begin_status(_state: State, draft: Draft) -> None:
    preparation.begin_status(draft.served, draft.obj)


def _require_name(_state: State, draft: Draft) -> None:
    if not draft.obj["metadata"].get("name"):
        raise invalid(draft.served.kind, "", [required("metadata.name", "name or generateName is required")])


def _check_rights(state: State, draft: Draft) -> None:
    state.rights.check(draft.admission_request(), draft.target.name)


def _mutate(state: State, draft: Draft) -> None:
    state.admission.mutate(draft.admission_request(), state)


def _fill_defaults_again(_state: State, draft: Draft) -> None:
    if draft.served.is_custom:
        preparation.fill_defaults(draft.served, draft.obj)


def _validate(_state: State, draft: Draft) -> None:
    if draft.known is None:
        preparation.validate(draft.served, draft.obj, None)
    else:
        preparation.validate_metadata(draft.served.kind, draft.obj)


def _admit(state: State, draft: Draft) -> None:
    state.admission.validate(draft.admission_request(), state)
    draft.warnings += draft.admission_request().warnings


def _prepare(state: State, draft: Draft) -> None:
    """Give some kinds what only the server gives."""
    kind, obj = draft.served.kind, draft.obj
    if kind is catalog.NAMESPACE:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj["status"] = {"phase": "Active"}
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    elif kind is catalog.CUSTOMRESOURCEDEFINITION:
        crd.prepare(obj, state.clock.now())
    first_status = strategy_of(draft.served).first_status
    status = first_status(obj, obj["metadata"]["creationTimestamp"]) if first_status is not None else None
    if status is not None:
        obj["status"] = status


def _find_key(state: State, draft: Draft) -> None:
    draft.key = storing.free_key(state, draft.served.kind, draft.obj["metadata"])


def _count_quotas(state: State, draft: Draft) -> None:
    draft.due = at_once(quotas.due(state, draft.served.kind, draft.target.namespace, draft.obj))


def _charge_quotas(state: State, draft: Draft) -> None:
    if draft.due and not storing.is_dry_run(draft.request):
        quotas.charge(state, draft.target.namespace, draft.due)


def _store(state: State, draft: Draft) -> None:
    kind, known = draft.served.kind, draft.known
    if known is None:
        draft.body = storing.store(state, draft.request, kind, draft.key, draft.obj)
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


Step = Callable[[State, Draft], None]


class CreateSteps(NamedTuple):
    """The steps of a kind."""

    sliced: tuple[tuple[tuple[Step, ...], str], ...]
    """Runs of steps, and how each is run."""
    at_once: tuple[tuple[Step, ...], tuple[Step, ...]]
    """Without quotas, and with them."""


_STEPS: tuple[tuple[Step, frozenset[str]], ...] = (
    (_name_namespace, frozenset((METADATA,))),
    (_drop_repeated_owners, frozenset((METADATA,))),
    (_check_namespace_is_open, frozenset((METADATA, NEW))),
    (_fill_defaults, frozenset((REST,))),
    (_begin_metadata, frozenset((METADATA,))),
    (_identify, frozenset((METADATA, NEW))),
    (_begin_status, frozenset((REST,))),
    (_require_name, frozenset((METADATA,))),
    # The cache is not used for users with restricted rights, and admission declares what of the metadata it reads.
    (_check_rights, frozenset((REST, KINDS))),
    (_mutate, frozenset((REST, KINDS))),
    (_fill_defaults_again, frozenset((REST,))),
    (_validate, frozenset((METADATA, REST))),
    (_check_namespace_again, frozenset((REST, KINDS))),
    (_admit, frozenset((REST, KINDS))),
    (_prepare, frozenset((REST, KINDS))),
    (_count_quotas, frozenset((REST, NEW))),
    (_find_key, frozenset((METADATA, NEW))),
    (_charge_quotas, frozenset((REST, NEW))),
    (_store, frozenset((METADATA, REST, NEW))),
)


def _beside_quotas(steps: Iterable[Step]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return what is done in one go: without quotas, and with them."""
    at_once = [step for step in steps if step is not _check_namespace_again]
    return tuple(step for step in at_once if step not in (_count_quotas, _charge_quotas)), tuple(at_once)


_KNOWN_REST, _KNOWN_TEXT = (
    _beside_quotas(step for step, reads in _STEPS if not reads.issubset(known))
    for known in ((REST, KINDS), (METADATA, REST, KINDS))
)
