"""The webhooks and policies that are stored, compiled once for each state of their kinds."""

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
    """What users may do."""

    def allows(self, user: User, asked: Attributes) -> bool:
        """Answer for a resource request, or for a path where there is one."""

    def reason(self, user: User, asked: Attributes) -> str:
        """Return why the answer to the same question is as it is; empty when there is nothing to say."""


class FieldTypes(Protocol):
    """The types of the fields of what is served."""

    def type_of(self, kind: Kind, api_version: str) -> Type | None:
        """Return the type of a version of a kind; None when there is no such version."""


class World(AdmissionReader, Protocol):
    """What is stored and served."""

    @property
    def field_managers(self) -> FieldTypes:
        """How objects of the kinds are merged."""

    @property
    def authorizer(self) -> Permissions | None:
        """Whether users may do what expressions ask about; None: they may."""

    @property
    def registry(self) -> Registry:
        """What is served."""

    @property
    def store(self) -> Store:
        """Where all is."""


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
        """Whether writes go on without it where it cannot be called."""
        return self.written.get("failurePolicy") == "Ignore"


class Binding(NamedTuple):
    """Where a policy applies."""

    name: str
    spec: Mapping[str, Any]
    scope: Scope


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A policy with its bindings; one without any does nothing."""

    name: str
    spec: Mapping[str, Any]
    scope: Scope
    bindings: tuple[Binding, ...]

    @property
    def fails_open(self) -> bool:
        """Whether writes go on where it cannot be evaluated."""
        return self.spec.get("failurePolicy") == "Ignore"


class Concerned(NamedTuple):
    """What the rules of configurations say may be about an operation on a kind, in order."""

    mutating: tuple[Hook, ...]
    validating: tuple[Hook, ...]
    policies: tuple[Policy, ...]
    mutations: tuple[Policy, ...]
    """The mutating policies, which come before the mutating webhooks."""
    others: tuple[Kind, ...] = ()
    """The kind in its other versions."""

    @property
    def mutates(self) -> bool:
        """Whether any of them may change objects."""
        return bool(self.mutating or self.mutations)

    def __bool__(self) -> bool:
        return bool(self.mutating or self.validating or self.policies or self.mutations)


_NONE = Concerned((), (), (), ())


@dataclass(slots=True)
class Sources:
    """Finds out who may be concerned."""

    world: World
    _buckets: tuple[Bucket, ...] = field(init=False)
    _stamp: tuple[int, ...] = (-1,)
    _all: Concerned = _NONE
    _concerned: dict[tuple[Kind, str, str], Concerned | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._buckets = tuple(self.world.store.bucket(kind.resource) for kind in _KINDS)

    def concerned(self, kind: Kind, operation: str, subresource: str) -> Concerned | None:
        """Return who may be concerned by an operation; None: nobody. Each write asks."""
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
        """Read all configurations, by name."""
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


def _policies(policies: Sequence[Json], bindings: Sequence[Json]) -> tuple[Policy, ...]:
    bound: dict[str, list[Binding]] = {}
    for one in bindings:
        name, spec = one["metadata"]["name"], one.get("spec") or {}
        scope = _scope(spec.get("matchResources") or {}, name)
        if scope is not None:
            bound.setdefault(spec.get("policyName") or "", []).append(Binding(name, spec, scope))
    found = []
    for policy in policies:
        name, spec = policy["metadata"]["name"], policy.get("spec") or {}
        scope = _scope(spec.get("matchConstraints") or {}, name)
        if scope is not None and name in bound:
            found.append(Policy(name, spec, scope, tuple(bound[name])))
    return tuple(found)


def _scope(written: Mapping[str, Any], name: str, rules: str = "resourceRules") -> Scope | None:
    try:
        return Scope.of(written, rules)
    except (InvalidSelector, msgspec.ValidationError) as error:  # stored before it was checked
        _log.warning("an admission configuration is skipped: name=%s error=%s", name, error)
        return None
