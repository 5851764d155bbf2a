"""Forms of metadata: what the metadata of objects alike have in common, and what may stand in the places that differ.

Pods of a job have the same labels, annotations and owner, but for a few names in them. A form is made of the metadata
of one object that was accepted, and takes the text of others that differ from it in their name, in values of labels
and annotations and in the name and uid of their owner only, each of them with nothing but letters about which there is
never anything to say. Such metadata are as right as the first ones were, and are stored as they were sent.
"""

from __future__ import annotations

import json
import re

import msgspec

from strato.api.validation.metadata import ANNOTATIONS_MAX_BYTES
from strato.server.objects import Json, encode

_MEMBERS = frozenset(("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"))
_MAX_BYTES = 4 << 10
"""Larger metadata have no form."""
_NAME = b"(?P<name>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)"
_LABEL = b"((?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?)"
_ANNOTATION = rb"([ !#-\[\]-~]{0,1024})"
_OWNER = rb"([ !#-\[\]-~]{1,256})"
"""Printable letters but those that are written otherwise in JSON."""
_STYLES = ((",", ":"), (", ", ": "))
"""How programs write JSON: without blanks, and as Python does unless told otherwise."""
_MARK = "\ue000"
_cut = re.compile(r"\\ue000(\d+)\\ue000").split


class Form(msgspec.Struct, frozen=True, gc=False):
    """The form of some metadata."""

    accepts: re.Pattern[bytes]
    """Metadata as they are sent, one group for each place that differs."""
    pieces: tuple[bytes, ...]
    """What is stored around the groups, but for the closing brace; empty: it is as it was sent."""

    def match(self, body: bytes, start: int, end: int) -> re.Match[bytes] | None:
        """Return what differs in metadata that are sent between two places of a body; None when they do not fit.

        Each part that may differ is short enough, and so are all together where the whole text is.
        """
        return self.accepts.fullmatch(body, start, end) if end - start <= ANNOTATIONS_MAX_BYTES else None

    def begin(self, match: re.Match[bytes]) -> bytes:
        """Return how accepted metadata begin when they are stored; the server's own members follow."""
        if not self.pieces:
            return match[0][:-1]
        mixed = [b""] * (2 * len(self.pieces) - 1)
        mixed[::2], mixed[1::2] = self.pieces, match.groups()
        return b"".join(mixed)


def form_of(sent: bytes, namespace: str, held: frozenset[str]) -> Form | None:
    """Return the form of metadata that were accepted; None when they are not plain enough.

    Args:
        sent: Their text.
        namespace: Where the object was made, empty for a kind without namespaces.
        held: Annotations that make a difference: metadata with one of them have no form.
    """
    if len(sent) > _MAX_BYTES or not sent.isascii() or b"\\" in sent:
        return None
    metadata: Json = json.loads(sent)
    place = {"namespace": namespace} if namespace else {}
    style = next((style for style in _STYLES if _text(metadata, style) == sent), None)
    if style is None or not _is_plain(metadata, held) or metadata.get("namespace", namespace) != namespace:
        return None
    if encode(metadata) != _text(metadata, _STYLES[0]):
        return None
    marked, patterns = _marked(metadata)
    stored = {**marked, **place}
    accepts = [
        patterns[int(piece)] if at % 2 else re.escape(piece.encode())
        for at, piece in enumerate(_cut(json.dumps(marked, separators=style)))
    ]
    as_sent = style == _STYLES[0] and stored.keys() == marked.keys()
    pieces = () if as_sent else _cut(json.dumps(stored, separators=_STYLES[0])[:-1])[::2]
    return Form(re.compile(b"".join(accepts)), tuple(piece.encode() for piece in pieces))


def _text(metadata: Json, style: tuple[str, str]) -> bytes:
    return json.dumps(metadata, separators=style).encode()


def _is_plain(metadata: Json, held: frozenset[str]) -> bool:
    """Whether all is set by the client, nothing is empty, and no two owners might turn out to be one."""
    return (
        metadata.keys() <= _MEMBERS
        and "name" in metadata
        and all(metadata.values())
        and not held & metadata.get("annotations", {}).keys()
        and len(metadata.get("ownerReferences", ())) <= 1
    )


def _marked(metadata: Json) -> tuple[Json, list[bytes]]:
    """Return metadata with a numbered mark in each place that may differ, and what may stand there."""
    patterns: list[bytes] = []

    def mark(pattern: bytes) -> str:
        patterns.append(pattern)
        return f"{_MARK}{len(patterns) - 1}{_MARK}"

    marked = {**metadata, "name": mark(_NAME)}
    for member, pattern in (("labels", _LABEL), ("annotations", _ANNOTATION)):
        if member in metadata:
            marked[member] = {key: mark(pattern) for key in metadata[member]}
    if "ownerReferences" in metadata:
        marked["ownerReferences"] = [
            {**owner, "name": mark(_OWNER), "uid": mark(_OWNER)} for owner in metadata["ownerReferences"]
        ]
    return marked, patterns
