"""Writes as pipelines of steps, each of which declares the parts of the object that it reads.

A `Pipeline` skips a step if all its inputs are known, which means that they equal those of an earlier write for which
the step had nothing to change or refuse. It also skips steps that do not concern the kind. A step with only some known
inputs checks the others. So each rule is in one place, and of several errors the same one is reported whatever is
known. This module has the steps that creation (`strato.server.rest.create`) and update (`strato.server.rest.update`)
share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import NamedTuple

import msgspec

from strato.admission import AdmissionRequest
from strato.api import catalog
from strato.api.validation import warnings
from strato.api.wire import Request
from strato.server import pathidentity, podsubresources, preparation
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
"""Inputs of steps: the metadata, all members but metadata and status, the status, the kinds that admission reads, and
inputs that are new for every write (other stored objects, time, random numbers)."""
AGAIN = "again"
"""Declared by checks that are repeated because the loop may have served other writes in between; a write without yields
does not need them."""
NOTHING: frozenset[str] = frozenset()
_KINDS_MAX = 512


class Draft(msgspec.Struct, gc=False):
    """An object on its way into the store."""

    request: Request
    target: ResourcePath
    served: Served
    obj: Json
    """The object as sent; the steps fill it in."""
    warnings: list[str]
    known: Cached | None = None
    """The hit of the create cache, of a new object."""
    old: Json | None = None
    """The stored object, decoded; None of a creation."""
    before: bytes | None = None
    """The stored object's bytes."""
    status: Json | None = None
    """The new status with apiVersion and kind, of an update that can change only the status; the rest is valid. Empty
    for built-in kinds: whoever may write their status is trusted."""
    texts: storing.Texts = storing.NO_TEXTS
    """The members that `encode_members` has encoded."""
    due: quotas.Due = ()
    """The charges to quotas that `count_quotas` has found."""
    key: str = ""
    body: bytes = b""
    """The bytes that were stored; empty before that, and non-empty if nothing is left to store."""
    asked: AdmissionRequest | None = None
    entries: list[Json] | None = None
    """Its ``managedFields``, once `strato.server.rest.ownership` has computed them."""

    def admission_request(self) -> AdmissionRequest:
        """Return the admission request, which all admission rules share."""
        if self.asked is None:
            operation = "CREATE" if self.old is None else "UPDATE"
            self.asked = storing.admission_request(
                self.request, self.target, self.served.kind, operation, self.obj, self.old
            )
        return self.asked


Step = Callable[[State, Draft], None]
YieldingStep = Callable[[State, Draft], Steps[None]]


class DeclaredStep(NamedTuple):
    """A step of a pipeline with its declarations."""

    step: Step | None
    """None if the step calls webhooks or policies: a write for which there are any is not run without yields."""
    reads: frozenset[str]
    concerns: Callable[[State, Served], bool] | None = None
    """Whether the step may have an effect on objects of a kind; None if on every kind."""
    yielding: YieldingStep | None = None
    """The same step for `Pipeline.sliced`, if it waits or takes long."""


class StepGroup(NamedTuple):
    """Consecutive steps that `Pipeline.sliced` runs in the same way."""

    steps: tuple[Step, ...]
    is_pausable: bool
    """Whether the steps read only the object, so that other requests may be served while they run."""
    yielding: tuple[YieldingStep, ...]
    """The steps of a run that has no others."""


class RemainingSteps(NamedTuple):
    """The steps left for one kind if certain inputs are known."""

    at_once: tuple[Step, ...]
    sliced: tuple[StepGroup, ...]


class Pipeline:
    """The list of steps of creations or updates."""

    def __init__(self, state: State, rows: Iterable[DeclaredStep]) -> None:
        self._state = state
        self._rows = tuple(rows)
        self._plans: dict[tuple[Served, frozenset[str]], RemainingSteps] = {}

    def at_once(self, draft: Draft, known: frozenset[str] = NOTHING) -> None:
        """Run all steps without yielding, except those whose inputs are all known."""
        state = self._state
        plan = self._plans.get((draft.served, known)) or self._plan(draft.served, known)
        for step in plan.at_once:
            step(state, draft)

    def sliced(self, draft: Draft) -> Steps[None]:
        """Run all steps; those that read only the object run in slices, because they can be paused."""
        state = self._state
        plan = self._plans.get((draft.served, NOTHING)) or self._plan(draft.served, NOTHING)
        for steps, is_pausable, yielding in plan.sliced:
            if is_pausable:
                yield partial(_run, steps, state, draft)
            else:
                _run(steps, state, draft)
            for step in yielding:
                yield from step(state, draft)

    def _plan(self, served: Served, known: frozenset[str]) -> RemainingSteps:
        if len(self._plans) >= _KINDS_MAX:  # entries of kinds whose definitions are gone
            self._plans.clear()
        rows = [
            row
            for row in self._rows
            if not row.reads <= known and (row.concerns is None or row.concerns(self._state, served))
        ]
        plan = self._plans[served, known] = RemainingSteps(
            tuple(row.step for row in rows if row.step is not None and AGAIN not in row.reads),
            tuple(_run_of(*manner, tuple(run)) for manner, run in groupby(rows, _manner)),
        )
        return plan


def _run(steps: Iterable[Step], state: State, draft: Draft) -> None:
    for step in steps:
        step(state, draft)


def _manner(row: DeclaredStep) -> tuple[bool, bool]:
    """Return whether a step yields, and whether it may be paused."""
    return row.yielding is not None, row.yielding is None and row.reads <= _OF_THE_OBJECT


def _run_of(is_yielding: bool, is_pausable: bool, rows: tuple[DeclaredStep, ...]) -> StepGroup:
    steps = () if is_yielding else tuple(row.step for row in rows if row.step is not None)
    return StepGroup(steps, is_pausable, tuple(row.yielding for row in rows if row.yielding is not None))


_OF_THE_OBJECT = frozenset((METADATA, REST, STATUS))


def has_rules(operation: str) -> Callable[[State, Served], bool]:
    """Return a function that tells whether admission has rules for an operation on a kind."""
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
    """Refuse content that the user's rights do not allow it to write, such as roles with more rights than its own."""
    state.rights.check(draft.admission_request(), draft.target.name)


def mutate(state: State, draft: Draft) -> None:
    """Have admission mutate the object."""
    state.admission.mutate(draft.admission_request(), state)


def validate(_state: State, draft: Draft) -> None:
    """Validate the object, or the part of it that is not known to be valid."""
    served, status, old = draft.served, draft.status, draft.old
    if draft.known is not None:
        preparation.validate_metadata(served, draft.obj)
    elif status is None:
        preparation.validate(served, draft.obj, old, draft.target.subresource)
    elif served.status is not None and old is not None:
        before = {**status, "status": old.get("status")}
        preparation.validate_status(served.status, status, before, draft.target.name)


def warn(_state: State, draft: Draft) -> None:
    """Add the warnings that the object deserves, though it is valid."""
    kind, obj, old = draft.served.kind, draft.obj, draft.old
    if old is None:
        draft.warnings += warnings.of_creation(kind, obj, spec_is_known=draft.known is not None)
    elif not draft.target.subresource and draft.status is None:
        draft.warnings += warnings.of_update(kind, obj, old)


def is_warned_about(_state: State, served: Served) -> bool:
    """Whether new objects of the kind may be warned about."""
    return served.kind in warnings.NEW


def is_warned_about_again(_state: State, served: Served) -> bool:
    """Whether changed objects of the kind may be warned about."""
    return served.kind in warnings.CHANGED


def admit(state: State, draft: Draft) -> None:
    """Have admission validate the object."""
    state.admission.validate(draft.admission_request(), state)
    draft.warnings += draft.admission_request().warnings


def is_daemon_set(_state: State, served: Served) -> bool:
    """Whether the kind is DaemonSet."""
    return served.kind is catalog.DAEMONSET


def is_service(state: State, served: Served) -> bool:
    """Whether the kind is Service, and services get addresses."""
    return served.kind is catalog.SERVICE and state.services is not None


def allocate(state: State, draft: Draft) -> None:
    """Give a service its addresses, unless only its status is written."""
    if state.services is not None and not draft.target.subresource:
        dry_run = storing.is_dry_run(draft.request)
        state.services.allocate(draft.obj, draft.old, dry_run=dry_run)


def encode_members(state: State, draft: Draft) -> Steps[None]:
    """Encode all but the metadata of a large object, ahead of the slice in which it is written."""
    if is_service(state, draft.served):
        return  # its addresses are still missing
    yield None
    draft.texts = {
        name: msgspec.Raw(preparation.encode(value)) for name, value in draft.obj.items() if name != "metadata"
    }
    yield None


def convert(state: State, draft: Draft) -> None:
    """Check, before anything is written, that the webhook has converted the object to the storage version.

    Raises:
        Unconverted: The webhook has to be called first.
    """
    bucket = state.bucket(draft.served.kind)
    if isinstance(bucket, VersionedBucket) and not draft.body:
        metadata = {"resourceVersion": "0", **draft.obj["metadata"]}
        bucket.stored(preparation.encode({**draft.obj, **draft.texts, "metadata": metadata}))


def is_converted(_state: State, served: Served) -> bool:
    """Whether a webhook converts written objects to the storage version."""
    return not served.is_stored_as_served and served.versions is not None and served.versions.webhook is not None


def count_quotas(state: State, draft: Draft) -> None:
    """Compute the charges to quotas."""
    if quotas.are_any(state):
        at_once(count_quotas_yielding(state, draft))


def count_quotas_yielding(state: State, draft: Draft) -> Steps[None]:
    """Compute the charges to quotas, in slices where there are many objects to count."""
    if not draft.body and draft.target.subresource in _COUNTED:  # with a body nothing is left to store
        draft.due = yield from quotas.due(state, draft.served.kind, draft.target.namespace, draft.obj, draft.old)


_COUNTED = ("", podsubresources.RESIZE)
"""Subresources through which an object's use of quotas may grow; empty is the object itself."""


def charge_quotas(state: State, draft: Draft) -> None:
    """Write the computed charges into the quotas' status."""
    if draft.due and not storing.is_dry_run(draft.request):
        quotas.charge(state, draft.target.namespace, draft.due)


def call_mutating(state: State, draft: Draft) -> Steps[None]:
    """Have mutating policies and webhooks change the object."""
    request = draft.admission_request()
    changed = yield from state.dynamic.mutate(request, storing.options(request), partial(_rechecked, draft))
    draft.warnings += request.warnings
    request.warnings.clear()
    if changed:
        assert request.object is not None, "an object remains one"
        draft.obj, draft.status = request.object, None
        state.admission.mutate(request, state)


def _rechecked(draft: Draft, obj: Json) -> Json:
    """Return the object that a webhook has changed, with immutable members restored and defaults filled in.

    Raises:
        ApiError: It is no longer an object of this kind.
    """
    served, old = draft.served, draft.old
    check_shape(obj)
    obj = preparation.check_type(served, obj)
    pathidentity.check_namespace(served.kind, obj, draft.target.namespace)
    preparation.check_fields(served, obj, "Ignore")
    if old is None:
        preparation.begin_again(served, obj, draft.obj)
    else:
        preparation.prepare_update(served, obj, old, subresource=draft.target.subresource)
    if draft.target.subresource != "finalize":
        preparation.fill_defaults(served, obj)
    return obj


def call_validating(state: State, draft: Draft) -> Steps[None]:
    """Have policies and webhooks validate the object."""
    request = draft.admission_request()
    known = len(request.warnings)
    yield from state.dynamic.validate(request, storing.options(request))
    draft.warnings += request.warnings[known:]
