"""Writes as lists of steps, each of which declares what it reads of the object.

A step is skipped when all it reads is known to be as it was when it last found nothing to change or refuse, and when it
has nothing to do with the kind. A step of which only some inputs are known looks at the others. So each rule is in one
place, and of several errors the same one is reported whatever is known. Here are the steps that creation
(`strato.server.rest.create`) and update (`strato.server.rest.update`) share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.wire import Request
from strato.server import podsubresources, preparation
from strato.server.flowcontrol.dispatch import Steps, at_once
from strato.server.jsonbodies import check_shape
from strato.server.path import ResourcePath
from strato.server.preparation import Json
from strato.server.registry import Served
from strato.server.rest import quotas, storing
from strato.server.rest.createcache import Cached
from strato.server.rest.state import State
from strato.server.versions import VersionedBucket

METADATA, REST, STATUS, KINDS, NEW = "metadata", "rest", "status", "kinds", "new"
"""What steps read: the metadata, the status, all other members, the kinds that admission reads, and what is new each
time (other stored objects, time, random numbers)."""
AGAIN = "again"
"""Declared by steps for which there is no need where all is done at once: they ask others, or repeat a check because
other requests may have been served since."""
NOTHING: frozenset[str] = frozenset()
_KINDS_MAX = 512


class Draft(msgspec.Struct, gc=False):
    """An object on its way into the store."""

    request: Request
    target: ResourcePath
    served: Served
    obj: Json
    """As it was sent, then filled in."""
    warnings: list[str]
    known: Cached | None = None
    """What the cache knows of a new object."""
    old: Json | None = None
    """What an update replaces."""
    before: bytes | None = None
    """That, as it is stored."""
    status: Json | None = None
    """Of an update that can only have changed the status: that, with version and kind. All else is known to be fine."""
    due: quotas.Due = ()
    """What is to be charged to quotas."""
    key: str = ""
    body: bytes = b""
    """As it is stored."""
    asked: AdmissionRequest | None = None
    entries: list[Json] | None = None
    """Its ``managedFields``, once they are known (`strato.server.rest.ownership`)."""

    def admission_request(self) -> AdmissionRequest:
        """Return the admission request, one object for all rules."""
        if self.asked is None:
            operation = "CREATE" if self.old is None else "UPDATE"
            self.asked = storing.admission_request(
                self.request, self.target, self.served.kind, operation, self.obj, self.old
            )
        return self.asked


Step = Callable[[State, Draft], None]


class Row(NamedTuple):
    """A step of a pipeline."""

    step: Step
    reads: frozenset[str]
    concerns: Callable[[State, Served], bool] | None = None
    """Whether it may do anything to an object of a kind; None: to each."""


class Plan(NamedTuple):
    """The steps of one kind, with certain inputs known."""

    at_once: tuple[Step, ...]
    sliced: tuple[tuple[str, tuple[Step, ...]], ...]
    """Runs of steps between which others may be served, and how each run is done."""


class Pipeline:
    """One list of steps."""

    def __init__(self, state: State, rows: Iterable[Row]) -> None:
        self._state = state
        self._rows = tuple(rows)
        self._plans: dict[tuple[Served, frozenset[str]], Plan] = {}

    def at_once(self, draft: Draft, known: frozenset[str] = NOTHING) -> None:
        """Take all steps in one go, but for those of which all inputs are known."""
        state = self._state
        plan = self._plans.get((draft.served, known)) or self._plan(draft.served, known)
        for step in plan.at_once:
            step(state, draft)

    def sliced(self, draft: Draft) -> Steps[None]:
        """Take all steps; what reads nothing but the object may take turns."""
        state = self._state
        plan = self._plans.get((draft.served, NOTHING)) or self._plan(draft.served, NOTHING)
        for manner, steps in plan.sliced:
            if manner == _IN_SLICES:
                yield partial(_run, steps, state, draft)
            elif manner == _INLINE:
                _run(steps, state, draft)
            else:
                for step in steps:
                    yield from _STEPWISE[step](state, draft)

    def _plan(self, served: Served, known: frozenset[str]) -> Plan:
        if len(self._plans) >= _KINDS_MAX:  # definitions came and went
            self._plans.clear()
        rows = [
            row
            for row in self._rows
            if not row.reads <= known and (row.concerns is None or row.concerns(self._state, served))
        ]
        plan = self._plans[served, known] = Plan(
            tuple(row.step for row in rows if AGAIN not in row.reads),
            tuple((manner, tuple(row.step for row in run)) for manner, run in groupby(rows, _manner)),
        )
        return plan


def _run(steps: Iterable[Step], state: State, draft: Draft) -> None:
    for step in steps:
        step(state, draft)


def _manner(row: Row) -> str:
    """Return how a step is done."""
    if row.step in _STEPWISE:
        return _STEP_BY_STEP
    return _IN_SLICES if row.reads <= _OF_THE_OBJECT else _INLINE


_IN_SLICES, _STEP_BY_STEP, _INLINE = "in turn", "step by step", "inline"
_OF_THE_OBJECT = frozenset((METADATA, REST, STATUS))


def has_rules(operation: str) -> Callable[[State, Served], bool]:
    """Return the test whether admission has rules about an operation on a kind."""
    return lambda state, served: state.admission.has_rules(served.kind, operation)


def fill_defaults(_state: State, draft: Draft) -> None:
    """Apply server-side defaults."""
    status, served = draft.status, draft.served
    if status is None:
        preparation.fill_defaults(served, draft.obj)
    elif served.status is not None:
        preparation.fill_defaults(served.status, status)
        if "status" in status:
            draft.obj["status"] = status["status"]


def check_rights(state: State, draft: Draft) -> None:
    """Refuse what the rights of the user do not let him write."""
    state.rights.check(draft.admission_request(), draft.target.name)


def mutate(state: State, draft: Draft) -> None:
    """Let admission fill in."""
    state.admission.mutate(draft.admission_request(), state)


def validate(_state: State, draft: Draft) -> None:
    """Check the object, or what of it is not known to be fine."""
    served, status, old = draft.served, draft.status, draft.old
    if draft.known is not None:
        preparation.validate_metadata(served.kind, draft.obj)
    elif status is None:
        preparation.validate(served, draft.obj, old, draft.target.subresource)
    elif served.status is not None and old is not None:
        before = {**status, "status": old.get("status")}
        preparation.validate_status(served.status, status, before, draft.target.name)


def admit(state: State, draft: Draft) -> None:
    """Let admission refuse."""
    state.admission.validate(draft.admission_request(), state)
    draft.warnings += draft.admission_request().warnings


def is_service(state: State, served: Served) -> bool:
    """Whether objects of the kind are given addresses."""
    return served.kind is catalog.SERVICE and state.services is not None


def allocate(state: State, draft: Draft) -> None:
    """Give a service its addresses; a status has nothing to do with them."""
    if state.services is not None and not draft.target.subresource:
        dry_run = storing.is_dry_run(draft.request)
        state.services.allocate(draft.obj, draft.old, dry_run=dry_run)


def convert(state: State, draft: Draft) -> None:
    """Make sure that a webhook has converted the object into the version it is stored in, before anything is written.

    Raises:
        Unconverted: It has to.
    """
    bucket = state.bucket(draft.served.kind)
    if isinstance(bucket, VersionedBucket) and not draft.body:
        bucket.stored(preparation.encode({**draft.obj, "metadata": {"resourceVersion": "0", **draft.obj["metadata"]}}))


def is_converted(_state: State, served: Served) -> bool:
    """Whether a webhook converts what is written into what is stored."""
    return not served.is_stored_as_served and served.versions is not None and served.versions.webhook is not None


def count_quotas(state: State, draft: Draft) -> None:
    """Find out what is to be charged to quotas."""
    if quotas.are_any(state):
        at_once(_counting(state, draft))


def _counting(state: State, draft: Draft) -> Steps[None]:
    if not draft.body and draft.target.subresource in _COUNTED:  # a body: nothing is to be stored
        draft.due = yield from quotas.due(state, draft.served.kind, draft.target.namespace, draft.obj, draft.old)


_COUNTED = ("", podsubresources.RESIZE)
"""Subresources by which more of what quotas count may be used."""


def charge_quotas(state: State, draft: Draft) -> None:
    """Charge that."""
    if draft.due and not storing.is_dry_run(draft.request):
        quotas.charge(state, draft.target.namespace, draft.due)


def call_mutating(_state: State, _draft: Draft) -> None:
    """Let webhooks change the object; what they are called for is done step by step."""


def _mutating(state: State, draft: Draft) -> Steps[None]:
    request = draft.admission_request()
    changed = yield from state.dynamic.mutate(request, storing.options(request), partial(_rechecked, draft))
    draft.warnings += request.warnings
    request.warnings.clear()
    if changed:
        assert request.object is not None, "an object remains one"
        draft.obj, draft.status = request.object, None
        state.admission.mutate(request, state)


def _rechecked(draft: Draft, obj: Json) -> Json:
    """Return what a webhook made of the object, with what it may not change as it was, and defaults.

    Raises:
        ApiError: It is no object of this kind any more.
    """
    served, old = draft.served, draft.old
    check_shape(obj)
    obj = preparation.check_type(served, obj)
    preparation.check_namespace(served.kind, obj, draft.target.namespace)
    preparation.check_fields(served, obj, "Ignore")
    if old is None:
        preparation.begin_again(served, obj, draft.obj)
    else:
        preparation.prepare_update(served, obj, old, subresource=draft.target.subresource)
    if draft.target.subresource != "finalize":
        preparation.fill_defaults(served, obj)
    return obj


def call_validating(_state: State, _draft: Draft) -> None:
    """Let policies and webhooks refuse; what they are asked about is done step by step."""


def _validating(state: State, draft: Draft) -> Steps[None]:
    request = draft.admission_request()
    known = len(request.warnings)
    yield from state.dynamic.validate(request, storing.options(request))
    draft.warnings += request.warnings[known:]


_STEPWISE: Mapping[Step, Callable[[State, Draft], Steps[None]]] = {
    count_quotas: _counting,
    call_mutating: _mutating,
    call_validating: _validating,
}
"""Steps that consist of steps, between which others are served."""
