"""Stored objects as raw members, so that a write that changes one member neither decodes nor encodes the others.

In a burst an object is written several times within milliseconds, so `RecentObjects` keeps the members of recent
writes. This module relies on bodies being stored as our encoder writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import msgspec

from strato.decoding import UNDECODABLE
from strato.server.preparation import encode

_GENERATION = 8192
_GENERATION_BYTES = 16 << 20
"""Bounds of one of the two generations of `RecentObjects`."""
_HEAD = frozenset(("apiVersion", "kind"))
_REVISION = b'"resourceVersion":"'
_ENTRIES = b'"managedFields":[{'

read_members: Callable[[bytes], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
read_object: Callable[[bytes | msgspec.Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode


Members = Mapping[bytes, bytes]
"""The members' texts, by the text before each value (`key_of`): all joined are the object's text."""


class _Metadata(msgspec.Struct, gc=False):
    uid: str
    resourceVersion: str
    deletionTimestamp: Any = None


_read_metadata: Callable[[bytes | msgspec.Raw], _Metadata] = msgspec.json.Decoder(_Metadata).decode


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One stored object, split into texts."""

    api_version: str
    uid: str
    start: bytes
    """The text up to the digits of the resource version."""
    end: bytes
    """The rest of the metadata after the digits."""
    members: Members
    """The members after the metadata, in order; objects with equal specs share the mapping."""
    is_tracked: bool = False
    """Whether the metadata has ``managedFields``."""

    def encode(self, revision: int) -> bytes:
        """Return the body at a revision."""
        return b"".join((self.start, b"%d" % revision, self.end, *chain.from_iterable(self.members.items()), b"}"))

    def replaced(self, members: Members) -> Stored:
        """Return the object with new values of some members; a new member comes last."""
        return Stored(self.api_version, self.uid, self.start, self.end, {**self.members, **members}, self.is_tracked)

    def with_metadata(self, **texts: Mapping[str, str]) -> Stored:
        """Return the object with additional labels or annotations."""
        raw = read_members(self.encode(0))
        metadata = read_object(raw["metadata"])
        for member, more in texts.items():
            if more:
                metadata[member] = {**(metadata.get(member) or {}), **more}
        return _joined(self.api_version, {**raw, "metadata": metadata})


def text_of(members: Members) -> bytes:
    """Return the text after the metadata, up to the end of the object."""
    return b"".join((*chain.from_iterable(members.items()), b"}"))


def key_of(name: str) -> bytes:
    """Return the text before the value of a member."""
    return b',"%b":' % name.encode()


SPEC, STATUS = key_of("spec"), key_of("status")


def of_object(obj: Mapping[str, Any]) -> Stored:
    """Split a decoded object; the resource version comes last in its metadata."""
    return _joined(obj["apiVersion"], obj)


def _joined(api_version: str, members: Mapping[str, Any]) -> Stored:
    head = {name: members[name] for name in ("apiVersion", "kind") if name in members}
    metadata = {name: value for name, value in members["metadata"].items() if name != "resourceVersion"}
    start = b'%b,"metadata":%b,%b' % (encode(head)[:-1], encode(metadata)[:-1], _REVISION)
    rest = {key_of(name): encode(value) for name, value in members.items() if name not in (*head, "metadata")}
    return Stored(api_version, metadata["uid"], start, b'"}', rest, "managedFields" in metadata)


class RecentObjects:
    """A cache of recently written objects, by the identity of the body."""

    def __init__(self) -> None:
        self._new: dict[int, tuple[bytes, Stored]] = {}
        self._old: dict[int, tuple[bytes, Stored]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of cached objects."""
        return len(self._new) + len(self._old)

    def of(self, body: bytes) -> Stored | None:
        """Return a stored body split; None if `split` cannot do that and the caller has to decode it."""
        number = id(body)
        known = self._new.get(number) or self._old.get(number)
        return known[1] if known is not None and known[0] is body else split(body)

    def note(self, body: bytes, stored: Stored, before: bytes = b"") -> None:
        """Cache a body that was just written, instead of the one ``before``."""
        self._new.pop(id(before), None)
        self._new[id(body)] = (body, stored)
        self._bytes += len(body)
        if len(self._new) >= _GENERATION or self._bytes >= _GENERATION_BYTES:
            self._old, self._new, self._bytes = self._new, {}, 0


def split(body: bytes) -> Stored | None:
    """Split a stored body; None if it is terminating, or its members are not in the usual order."""
    try:
        members = read_members(body)
        metadata = _read_metadata(members["metadata"])
        version: str = msgspec.json.decode(members["apiVersion"])
    except (*UNDECODABLE, KeyError):
        return None
    names = list(members)
    place = names.index("metadata")
    raw = bytes(members["metadata"])
    start = sum(len(name) + len(bytes(members[name])) + 4 for name in names[:place]) + len(b'{"metadata":')
    rest = {key_of(name): bytes(members[name]) for name in names[place + 1 :]}
    size = start + len(raw) + sum(map(len, chain.from_iterable(rest.items()))) + 1
    digits = _REVISION + metadata.resourceVersion.encode() + b'"'
    if (
        metadata.deletionTimestamp is not None
        or not _HEAD.issuperset(names[:place])
        or size != len(body)
        or raw.count(digits) != 1  # a label or annotation has this key and value too
    ):
        return None
    at = raw.index(digits) + len(_REVISION)
    end = raw[at + len(metadata.resourceVersion) :]
    return Stored(version, metadata.uid, body[: start + at], end, rest, _ENTRIES in raw)
