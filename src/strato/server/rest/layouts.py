"""Where in the bytes of a stored object lies what short writes change: the revision, the end of the spec, the status.

What such a write does not touch is neither decoded nor encoded, and what wrote the bytes knows where it put things: the
layouts of what was written lately are kept, for an object of a burst is written several times within milliseconds.

Bodies are stored as our encoder writes them, so that bytes can be told from their meaning: a quote inside a text is
escaped there, and a key between bare quotes can only be a key.
"""

from __future__ import annotations

import msgspec

from strato.server.rest.members import read_members, read_metadata

_GENERATION = 8192
_GENERATION_BYTES = 16 << 20
"""Layouts are kept for twice as many bodies, and as many bytes of them, at most."""
STATUS = b',"status":'
"""What is written before the status of a body."""


class Layout(msgspec.Struct, frozen=True, gc=False):
    """Offsets into one body. An object on its way out has none, nor one whose members stand in an odd order."""

    api_version: str
    uid: str
    metadata: int
    """Where the metadata begin."""
    revision: int
    """Where the digits of the resource version begin."""
    revision_end: int
    metadata_end: int
    spec: int
    """Where the spec begins; 0 when there is none between the metadata and the status."""
    spec_end: int
    status: int
    """Where the status begins; 0 when there is none."""
    status_end: int


class Tail(msgspec.Struct, frozen=True, gc=False):
    """Offsets into what follows the metadata of a body."""

    spec: int
    spec_end: int
    status: int
    status_end: int


class Layouts:
    """The layouts of bodies written lately, found by the very bytes object."""

    def __init__(self) -> None:
        self._new: dict[int, tuple[bytes, Layout]] = {}
        self._old: dict[int, tuple[bytes, Layout]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._new) + len(self._old)

    def of(self, body: bytes) -> Layout | None:
        """Return the layout of a stored body; None when it has to be read as a whole.

        Raises:
            msgspec.DecodeError: It has no metadata as stored objects have.
        """
        number = id(body)
        known = self._new.get(number) or self._old.get(number)
        return known[1] if known is not None and known[0] is body else read_layout(body)

    def note(self, body: bytes, layout: Layout, before: bytes = b"") -> None:
        """Keep the layout of a body just written, in place of that of the one ``before``."""
        self._new.pop(id(before), None)
        self._new[id(body)] = (body, layout)
        self._bytes += len(body)
        if len(self._new) >= _GENERATION or self._bytes >= _GENERATION_BYTES:
            self._old, self._new, self._bytes = self._new, {}, 0


def read_layout(body: bytes) -> Layout | None:
    """Find out the layout of a body; raises as `Layouts.of` does."""
    at, spans = 0, {}
    members = read_members(body)
    for name, raw in members.items():
        at += len(name) + 4  # a brace or a comma, two quotes, a colon
        size = len(bytes(raw))
        spans[name] = (at, at + size)
        at += size
    start, end = spans.get("metadata", (0, 0))
    spec, spec_end = spans.get("spec", (0, 0))
    status, status_end = spans.get("status", (0, 0))
    if at + 1 != len(body) or not start or 0 < status < end:
        return None
    if spec < end or 0 < status < spec:
        spec = spec_end = 0
    metadata = read_metadata(members["metadata"])
    key = f'"resourceVersion":"{metadata.resourceVersion}"'.encode()
    if metadata.deletionTimestamp is not None or body.count(key, start, end) != 1:
        return None  # a label or annotation may have that key and value too
    revision = body.index(key, start, end) + len(b'"resourceVersion":"')
    version: str = msgspec.json.decode(members["apiVersion"])
    return Layout(
        version,
        metadata.uid,
        start,
        revision,
        revision + len(metadata.resourceVersion),
        end,
        spec,
        spec_end,
        status,
        status_end,
    )


def tail_of(body: bytes) -> Tail | None:
    """Return where things lie behind the metadata of a body, if it has a layout."""
    at = read_layout(body)
    if at is None:
        return None
    end = at.metadata_end
    spec = (at.spec - end, at.spec_end - end) if at.spec else (0, 0)
    status = (at.status - end, at.status_end - end) if at.status else (0, 0)
    return Tail(*spec, *status)


def of_created(api_version: str, uid: str, start: int, size: int, revision: str, tail: Tail) -> Layout:
    """Return the layout of a body put together from a head, metadata that end with their revision, and a tail.

    Args:
        api_version: The object's.
        uid: The object's.
        start: The length of the head.
        size: The length of the metadata.
        revision: The resource version, as text.
        tail: Where in the tail things lie.
    """
    end = start + size
    last = end - len(b'"}')
    return Layout(
        api_version,
        uid,
        start,
        last - len(revision),
        last,
        end,
        tail.spec + end if tail.spec else 0,
        tail.spec_end + end if tail.spec else 0,
        tail.status + end if tail.status else 0,
        tail.status_end + end if tail.status else 0,
    )


def rewritten(body: bytes, at: Layout, revision: int, status: bytes, more_spec: bytes = b"") -> tuple[bytes, Layout]:
    """Return a body with another revision and status, and with ``more_spec`` as the last members of its spec.

    Args:
        body: As it is stored.
        at: Its layout, with a spec when there shall be more of it.
        revision: The next one.
        status: As our encoder writes it.
        more_spec: A comma and members.
    """
    number = b"%d" % revision
    if at.status:
        start, end, lead = at.status, at.status_end, b""
    else:
        start = end = len(body) - 1
        lead = STATUS
    between = body[at.revision_end : start]
    if more_spec:
        cut = at.spec_end - 1
        between = b"".join((body[at.revision_end : cut], more_spec, body[cut:start]))
    result = b"".join((body[: at.revision], number, between, lead, status, body[end:]))
    growth = len(more_spec)
    begin = start + len(number) - (at.revision_end - at.revision) + growth + len(lead)
    return result, _moved(at, len(number), growth, begin, begin + len(status))


def with_spec_text(body: bytes, at: Layout, revision: int, span: tuple[int, int], text: bytes) -> tuple[bytes, Layout]:
    """Return a body with another revision, and with a text in place of one inside its spec.

    Args:
        body: As it is stored.
        at: Its layout.
        revision: The next one.
        span: Where the text begins and ends that is replaced.
        text: As our encoder writes it.
    """
    number, (start, end) = b"%d" % revision, span
    result = b"".join((body[: at.revision], number, body[at.revision_end : start], text, body[end:]))
    growth = len(text) - (end - start)
    moved = len(number) - (at.revision_end - at.revision) + growth
    status = (at.status + moved, at.status_end + moved) if at.status else (0, 0)
    return result, _moved(at, len(number), growth, *status)


def _moved(at: Layout, digits: int, growth: int, status: int, status_end: int) -> Layout:
    """Return a layout after the revision got so many digits, the spec so many bytes more, and the status its place."""
    shift = digits - (at.revision_end - at.revision)
    return Layout(
        at.api_version,
        at.uid,
        at.metadata,
        at.revision,
        at.revision + digits,
        at.metadata_end + shift,
        at.spec + shift if at.spec else 0,
        at.spec_end + shift + growth if at.spec else 0,
        status,
        status_end,
    )
