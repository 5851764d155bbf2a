"""Types of fields, as far as merging needs them: which values are leaves, and what identifies items of lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT: Any = object()
"""Stands for a missing value, as null is a value."""
Compile = Callable[[Any], "Type"]


class MapType:
    """A struct or a map.

    Args:
        declared: Schemas of the named members.
        compile_type: Compiles such a schema on first use.
        others: Schema or type of all other members; None if there may be none.
        atomic: Whether the whole is one leaf.
    """

    def __init__(
        self, declared: Mapping[str, Any], compile_type: Compile, others: Any, *, atomic: bool = False
    ) -> None:
        self.declared, self.atomic = declared, atomic
        self._compile, self._others = compile_type, others
        self._types: dict[str, Type] = {}

    @property
    def element(self) -> Type | None:
        """The type of members that are not declared."""
        if self._others is not None and not isinstance(self._others, Type):
            self._others = self._compile(self._others)
        return self._others

    def child(self, name: str) -> Type | None:
        """Return the type of a member; None if a member of that name is not allowed."""
        found = self._types.get(name)
        if found is None:
            if name not in self.declared:
                return self.element
            found = self._types[name] = self._compile(self.declared[name])
        return found

    def with_atomic(self, *, atomic: bool) -> MapType:
        """Return the same type as atomic or granular."""
        return MapType(self.declared, self._compile, self._others, atomic=atomic)


class ListType:
    """A list: one leaf (``atomic``), a set of scalars (``set``), or items identified by keys (``map``).

    Args:
        schema: Schema of the items.
        compile_type: Compiles the schema on first use.
        kind: ``atomic``, ``set`` or ``map``.
        keys: Names of the key members of a ``map``.
        default_of: Returns the default of a key, or `ABSENT`.
    """

    def __init__(
        self,
        schema: Any,
        compile_type: Compile,
        kind: str,
        keys: tuple[str, ...] = (),
        default_of: Callable[[str], Any] = lambda _: ABSENT,
    ) -> None:
        self.kind, self.keys, self.default_of = kind, keys, default_of
        self._schema, self._compile = schema, compile_type
        self._element: Type | None = None

    @property
    def element(self) -> Type:
        """The type of the items."""
        if self._element is None:
            self._element = self._compile(self._schema)
        return self._element

    def with_atomic(self, *, atomic: bool) -> ListType:
        """Return the same type as atomic, or as granular according to its keys."""
        kind = "atomic" if atomic else "map" if self.keys else "set"
        return ListType(self._schema, self._compile, kind, self.keys, self.default_of)


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """The type of a field: a scalar, a list or a map, or several of these."""

    scalar: str = ""
    """``numeric``, ``string``, ``boolean``, or ``untyped`` for all of them."""
    list: ListType | None = None
    map: MapType | None = None
    is_deduced: bool = False
    """Whether the type is deduced from the value; such fields are not reconciled when a schema changes."""

    def kind_of(self, value: Any) -> str:
        """Return the type to treat a value as; empty if that is open (null, or a value that does not fit)."""
        if value.__class__ is dict and self.map is not None:
            return "map"
        if value.__class__ is list and self.list is not None:
            return "list"
        if value.__class__ in _SCALARS and self.scalar:
            return "scalar"
        if (self.map is not None) + bool(self.scalar) + (self.list is not None) > 1:
            return ""
        return self.first()

    def first(self) -> str:
        """Return the type to treat a value as if `kind_of` is empty."""
        return "map" if self.map is not None else "scalar" if self.scalar else "list"

    def with_atomic(self, *, atomic: bool) -> Type:
        """Return the type as atomic or granular, as a field that refers to it may set."""
        if self.map is not None:
            return Type(self.scalar, self.list, self.map.with_atomic(atomic=atomic), self.is_deduced)
        if self.list is not None:
            return Type(self.scalar, self.list.with_atomic(atomic=atomic), None, self.is_deduced)
        return self


_SCALARS = frozenset((str, int, float, bool))


def _untyped_atomic(_: Any) -> Type:
    return UNTYPED_ATOMIC


def _deduced(_: Any) -> Type:
    return DEDUCED


WHOLE_MAP = MapType({}, _untyped_atomic, {}, atomic=True)
"""A map with arbitrary members, as one leaf."""
_WHOLE_LIST = ListType({}, _untyped_atomic, "atomic")
UNTYPED_ATOMIC = Type("untyped", _WHOLE_LIST, WHOLE_MAP, is_deduced=True)
DEDUCED = Type("untyped", _WHOLE_LIST, MapType({}, _deduced, {}), is_deduced=True)
"""Any value: as one leaf, and with maps member by member."""
