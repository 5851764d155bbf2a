"""The stored webhooks and policies, compiled once for each state of the objects that configure them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from strato.admission import AdmissionReader
from strato.api import catalog
from strato.api.kinds import Kind
from strato.api.selectors import InvalidSelector
from strato.api.wire import User
from strato.server.dynamicadmission.equivalence import equivalents
from strato.server.dynamicadmission.matching import Json, Scope, is_exempt
from strato.server.fieldmanager.types import Type
from strato.server.path import Attributes
from strato.server.registry import Registry
from strato.server.store import Bucket, Store

_KINDS = (
    catalog.MUTATINGWEBHOOKCONFIGURATION,
    catalog.VALIDATINGWEBHOOKCONFIGURATION,
    catalog.VALIDATINGADMISSIONPOLICY,
    catalog.VALIDATINGADMISSIONPOLICYBINDING,
    catalog.MUTATINGADMISSIONPOLICY,
    catalog.MUTATINGADMISSIONPOLICYBINDING,
)
_log = logging.getLogger(__name__)


class Permissions(Protocol):
    """Decides what users may do."""

    def allows(self, user: User, asked: Attributes) -> bool:
        """Decide on a resource request, or on a non-resource path if ``asked`` has one."""

    def reason(self, user: User, asked: Attributes) -> str:
        """Return the reason of the same decision; empty if there is none."""


class FieldTypes(Protocol):
    """The types of the served kinds' fields."""

    def type_of(self, kind: Kind, api_version: str) -> Type | None:
        """Return the type of a kind's version; None if there is no such version."""


class World(AdmissionReader, Protocol):
    """The parts of the server's state that dynamic admission reads."""

    @property
    def field_managers(self) -> FieldTypes:
        """The field types by which objects are merged."""

    @property
    def authorizer(self) -> Permissions | None:
        """Answers the ``authorizer`` of expressions; None allows everything."""

    @property
    def registry(self) -> Registry:
        """The served kinds."""

    @property
    def store(self) -> Store:
        """The store."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook of a configuration."""

    configuration: str
    written: Mapping[str, Any]
    scope: Scope

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.written["name"])

    @property
    def fails_open(self) -> bool:
        """Whether a write goes on if the webhook cannot be called (``failurePolicy: Ignore``)."""
        return self.written.get("failurePolicy") == "Ignore"


class PolicyBinding(NamedTuple):
    """A policy's binding: where the policy applies, and with which parameters."""

    name: str
    spec: Mapping[str, Any]
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class AdmissionPolicy:
    """A policy with its bindings; one without any does nothing."""

    name: str
    spec: Mapping[str, Any]
    scope: Scope
    bindings: tuple[PolicyBinding, ...]

    @property
    def fails_open(self) -> bool:
        """Whether a write goes on if the policy cannot be evaluated (``failurePolicy: Ignore``)."""
        return self.spec.get("failurePolicy") == "Ignore"


class Concerned(NamedTuple):
    """The webhooks and policies whose rules match an operation on a kind, in order."""

    mutating: tuple[Hook, ...]
    validating: tuple[Hook, ...]
    policies: tuple[AdmissionPolicy, ...]
    mutations: tuple[AdmissionPolicy, ...]
    """The mutating policies, which are evaluated before the mutating webhooks are called."""
    others: tuple[Kind, ...] = ()
    """The other versions of the kind."""

    @property
    def mutates(self) -> bool:
        """Whether any of them mutates."""
        return bool(self.mutating or self.mutations)

    def __bool__(self) -> bool:
        return bool(self.mutating or self.validating or self.policies or self.mutations)


_NONE = Concerned((), (), (), ())


@dataclass(slots=True)
class Sources:
    """Finds the webhooks and policies that may concern a write."""

    world: World
    _buckets: tuple[Bucket, ...] = field(init=False)
    _stamp: tuple[int, ...] = (-1,)
    _all: Concerned = _NONE
    _concerned: dict[tuple[Kind, str, str], Concerned | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._buckets = tuple(self.world.store.bucket(kind.resource) for kind in _KINDS)

    def concerned(self, kind: Kind, operation: str, subresource: str) -> Concerned | None:
        """Return the webhooks and policies that may concern an operation, None if none; cached, as every write asks."""
        one, two, three, four, five, six = self._buckets
        if not (one.objects or two.objects or three.objects or five.objects):
            return None
        newest = (one.newest, two.newest, three.newest, four.newest, five.newest, six.newest)
        stamp = (*newest, self.world.registry.revision)
        if stamp != self._stamp:
            self._all, self._stamp = self._read(), stamp
            self._concerned.clear()
        key = (kind, operation, subresource)
        try:
            return self._concerned[key]
        except KeyError:
            found = self._concerned[key] = self._of(*key)
            return found

    def _of(self, kind: Kind, operation: str, subresource: str) -> Concerned | None:
        mutating, validating, policies, mutations, _ = self._all
        if is_exempt(kind) or not self._all:
            return None
        others = equivalents(kind, list(self.world.registry.kinds()))

        def covers(scope: Scope) -> bool:
            return scope.covered(kind, operation, subresource, others) is not None

        found = Concerned(
            tuple(hook for hook in mutating if covers(hook.scope)),
            tuple(hook for hook in validating if covers(hook.scope)),
            tuple(policy for policy in policies if covers(policy.scope)),
            tuple(policy for policy in mutations if operation != "DELETE" and covers(policy.scope)),
            others,
        )
        return found or None

    def _read(self) -> Concerned:
        """Read all configuration objects, in order of name."""
        mutating, validating, policies, bindings, mutations, mutating_bindings = (
            sorted(self.world.list(kind, ""), key=lambda obj: str(obj["metadata"]["name"])) for kind in _KINDS
        )
        bound, changing = _policies(policies, bindings), _policies(mutations, mutating_bindings)
        return Concerned(_hooks(mutating), _hooks(validating), bound, changing)


def _hooks(configurations: Sequence[Json]) -> tuple[Hook, ...]:
    found = []
    for configuration in configurations:
        name = configuration["metadata"]["name"]
        for written in configuration.get("webhooks") or ():
            scope = _scope(written, name, "rules")
            if scope is not None:
                found.append(Hook(name, written, scope))
    return tuple(found)


def _policies(policies: Sequence[Json], bindings: Sequence[Json]) -> tuple[AdmissionPolicy, ...]:
    bound: dict[str, list[PolicyBinding]] = {}
    for one in bindings:
        name, spec = one["metadata"]["name"], one.get("spec") or {}
        scope = _scope(spec.get("matchResources") or {}, name)
        if scope is not None:
            bound.setdefault(spec.get("policyName") or "", []).append(PolicyBinding(name, spec, scope))
    found = []
    for policy in policies:
        name, spec = policy["metadata"]["name"], policy.get("spec") or {}
        scope = _scope(spec.get("matchConstraints") or {}, name)
        if scope is not None and name in bound:
            found.append(AdmissionPolicy(name, spec, scope, tuple(bound[name])))
    return tuple(found)


def _scope(written: Mapping[str, Any], name: str, rules: str = "resourceRules") -> Scope | None:
    try:
        return Scope.of(written, rules)
    except (InvalidSelector, msgspec.ValidationError) as error:  # stored by a version that did not check it
        _log.warning("an admission configuration is skipped: name=%s error=%s", name, error)
        return None
