"""What the reference of plugins reads of a class: its attributes, with the types that can be seen."""

from __future__ import annotations

from typing import Any

from strato.scheduler.framework.reference import ClassMember, _own_members


def made() -> Any:
    """Return what has no type that can be seen."""


class Sample:
    """A sample.

    Args:
        size: How large it is.

    Attributes:
        free: What is left.
    """

    kind: str
    """What it is."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = made()
        self.kind = made()
        self._own = size


def test_attributes_have_the_type_that_is_seen_somewhere() -> None:
    found = {member.name: member for member in _own_members(Sample)}
    assert found == {
        "kind": ClassMember("kind", "str", "What it is."),
        "size": ClassMember("size", "int", "How large it is."),
        "free": ClassMember("free", "", "What is left."),
    }
