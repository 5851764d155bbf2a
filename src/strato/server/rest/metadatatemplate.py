"""Templates of metadata: those of a job's pods differ in a few values, and only the values are checked.

A template is made from metadata that were accepted. It matches others that differ only in the name, values of labels
and annotations, and the owner's name and uid, each with a pattern whose matches are always valid. Metadata that match
are as valid as the first ones, and are stored as they were sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

from strato.api.templates import Template, template_of
from strato.api.validation.metadata import ANNOTATIONS_MAX_BYTES
from strato.server.preparation import Json, encode

_MEMBERS = frozenset(("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"))
_MAX_BYTES = 4 << 10
"""Larger metadata have no template."""
_NAME = b"(?P<name>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)"
_LABEL = b"((?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?)"
_ANNOTATION = rb"([ !#-\[\]-~]{0,1024})"
_OWNER = rb"([ !#-\[\]-~]{1,256})"
"""Printable letters but those that are written otherwise in JSON."""
_STYLES = ((",", ":"), (", ", ": "))
"""How programs write JSON: without blanks, and as Python does by default."""


class MetadataTemplate(msgspec.Struct, frozen=True, gc=False):
    """The template of some metadata."""

    accepts: re.Pattern[bytes]
    """Metadata as they are sent, one group for each hole."""
    stored: Template | None
    """How they are stored; None: as they were sent."""

    def match(self, body: bytes, start: int, end: int) -> re.Match[bytes] | None:
        """Return what differs in metadata that are sent between two places of a body; None when they do not fit.

        Each part that may differ is short enough, and so are all together where the whole text is.
        """
        return self.accepts.fullmatch(body, start, end) if end - start <= ANNOTATIONS_MAX_BYTES else None

    def begin(self, match: re.Match[bytes]) -> bytes:
        """Return accepted metadata as they are stored, but for the closing brace: the server's own members follow."""
        return (match[0] if self.stored is None else self.stored.fill(match.groups()))[:-1]


def metadata_template(sent: bytes, namespace: str, held: frozenset[str]) -> MetadataTemplate | None:
    """Return the template of metadata that were accepted; None when they are not plain enough.

    Args:
        sent: Their text.
        namespace: Where the object was made, empty for a kind without namespaces.
        held: Annotations that make a difference: metadata with one of them have no template.
    """
    if len(sent) > _MAX_BYTES or not sent.isascii() or b"\\" in sent or b"<" in sent:
        return None
    metadata: Json = json.loads(sent)
    style = next((style for style in _STYLES if _text(metadata, style) == sent), None)
    if style is None or not _is_plain(metadata, held) or metadata.get("namespace", namespace) != namespace:
        return None
    if encode(metadata) != _text(metadata, _STYLES[0]):
        return None
    patterns = _patterns(metadata)
    place = {"namespace": namespace} if namespace else {}
    names = [f"hole{at}" for at in range(len(patterns))]
    as_sent = template_of(names, lambda texts: _text(_with_values(metadata, texts), style))
    stored = template_of(names, lambda texts: encode({**_with_values(metadata, texts), **place}))
    if as_sent is None or stored is None:
        return None
    accepts = [re.escape(as_sent.pieces[0])]
    for hole, piece in zip(as_sent.holes, as_sent.pieces[1:], strict=True):
        accepts += (patterns[hole], re.escape(piece))
    return MetadataTemplate(re.compile(b"".join(accepts)), None if stored == as_sent else stored)


def _text(metadata: Json, style: tuple[str, str]) -> bytes:
    return json.dumps(metadata, separators=style).encode()


def _is_plain(metadata: Json, held: frozenset[str]) -> bool:
    """Whether all members are the client's, none is empty, and there is at most one owner."""
    return (
        metadata.keys() <= _MEMBERS
        and "name" in metadata
        and all(metadata.values())
        and not held & metadata.get("annotations", {}).keys()
        and len(metadata.get("ownerReferences", ())) <= 1
    )


def _patterns(metadata: Json) -> list[bytes]:
    """Return the pattern of each hole, in the order of the text."""
    patterns: list[bytes] = []
    for member, value in metadata.items():
        match member:
            case "name":
                patterns.append(_NAME)
            case "labels":
                patterns += [_LABEL] * len(value)
            case "annotations":
                patterns += [_ANNOTATION] * len(value)
            case "ownerReferences":
                patterns += [_OWNER, _OWNER] * len(value)
    return patterns


def _with_values(metadata: Json, texts: Sequence[str]) -> Json:
    """Return metadata with other values in the holes."""
    left = iter(texts)
    result: Json = {}
    for member, value in metadata.items():
        if member == "name":
            result[member] = next(left)
        elif member in ("labels", "annotations"):
            result[member] = {key: next(left) for key in value}
        elif member == "ownerReferences":
            result[member] = [
                {key: next(left) if key in ("name", "uid") else kept for key, kept in owner.items()} for owner in value
            ]
        else:
            result[member] = value
    return result
