"""Types of fields, as far as merging needs them: which values are leaves, and what tells items of a list apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ABSENT: Any = object()
"""Stands for a value that is not there; null is one that is."""
Compile = Callable[[Any], "Type"]


class MapType:
    """A struct or a map.

    Args:
        declared: Schemas of the named members.
        compile_type: Makes a type of such a schema when it is first asked for.
        others: Schema of all other members, or their type; None: there are none.
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
        """The type of members that are not named."""
        if self._others is not None and not isinstance(self._others, Type):
            self._others = self._compile(self._others)
        return self._others

    def child(self, name: str) -> Type | None:
        """Return the type of a member; None when there may be none of that name."""
        found = self._types.get(name)
        if found is None:
            if name not in self.declared:
                return self.element
            found = self._types[name] = self._compile(self.declared[name])
        return found

    def with_atomic(self, *, atomic: bool) -> MapType:
        """Return the same type as one leaf, or as many."""
        return MapType(self.declared, self._compile, self._others, atomic=atomic)


class ListType:
    """A list: one leaf (``atomic``), a set of scalars (``set``), or items told apart by their keys (``map``).

    Args:
        schema: Schema of the items.
        compile_type: Makes a type of it when it is first asked for.
        kind: One of the above.
        keys: Of a ``map``.
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
        """Return the same type as one leaf, or as what its keys say."""
        kind = "atomic" if atomic else "map" if self.keys else "set"
        return ListType(self._schema, self._compile, kind, self.keys, self.default_of)


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """What values of a field may be, one or more of a scalar, a list and a map."""

    scalar: str = ""
    """``numeric``, ``string``, ``boolean``, or ``untyped`` for all of them."""
    list: ListType | None = None
    map: MapType | None = None
    is_deduced: bool = False
    """Whether it follows the value; such fields are left alone when a schema changes."""

    def kind_of(self, value: Any) -> str:
        """Return what a value is taken for; empty where that is open (null, or a value that does not fit)."""
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
        """Return what a value is taken for whose kind is open."""
        return "map" if self.map is not None else "scalar" if self.scalar else "list"

    def with_atomic(self, *, atomic: bool) -> Type:
        """Return the type with another relationship of its map or list, as a field may ask for."""
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
"""A free map as one leaf."""
_WHOLE_LIST = ListType({}, _untyped_atomic, "atomic")
UNTYPED_ATOMIC = Type("untyped", _WHOLE_LIST, WHOLE_MAP, is_deduced=True)
DEDUCED = Type("untyped", _WHOLE_LIST, MapType({}, _deduced, {}), is_deduced=True)
"""Any value as one leaf; any value, maps member by member."""
