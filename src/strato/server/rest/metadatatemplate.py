"""Templates of metadata, with which the metadata of a job's pods are checked by one regular expression.

A template is made from accepted metadata. It matches metadata that differ from these only in the name, in values of
labels and annotations, and in the owner's name and uid; each of these holes has a pattern that only valid values match.
So metadata that match are valid as well, and can be stored without being decoded.
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
"""Longest metadata that get a template."""
_NAME = b"(?P<name>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)"
_LABEL = b"((?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?)"
_ANNOTATION = rb"([ !#-\[\]-~]{0,1024})"
_OWNER = rb"([ !#-\[\]-~]{1,256})"
"""Printable ASCII characters that JSON does not escape."""
_STYLES = ((",", ":"), (", ", ": "))
"""Separators of JSON encoders: compact ones, and Python's default."""


class MetadataTemplate(msgspec.Struct, frozen=True, gc=False):
    """The template of some metadata."""

    accepts: re.Pattern[bytes]
    """Matches metadata as clients send them, with a group for each hole."""
    stored: Template | None
    """The text to store; None if it is the text sent."""

    def match(self, body: bytes, start: int, end: int) -> re.Match[bytes] | None:
        """Match the metadata between two offsets of a body; None if they do not match.

        The patterns bound each value; the bound on the whole text keeps annotations within their limit.
        """
        return self.accepts.fullmatch(body, start, end) if end - start <= ANNOTATIONS_MAX_BYTES else None

    def begin(self, match: re.Match[bytes]) -> bytes:
        """Return the text to store of matched metadata, without the closing brace: the server's own members follow."""
        return (match[0] if self.stored is None else self.stored.fill(match.groups()))[:-1]


def metadata_template(sent: bytes, namespace: str, held: frozenset[str]) -> MetadataTemplate | None:
    """Return a template of accepted metadata; None if they are not simple enough for one.

    Args:
        sent: The metadata as sent.
        namespace: The object's namespace, empty for a cluster-scoped kind.
        held: Annotations on which admission depends; metadata with one of them get no template.
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
    """Whether all members are ones that clients set, none is empty, and there is at most one owner."""
    return (
        metadata.keys() <= _MEMBERS
        and "name" in metadata
        and all(metadata.values())
        and not held & metadata.get("annotations", {}).keys()
        and len(metadata.get("ownerReferences", ())) <= 1
    )


def _patterns(metadata: Json) -> list[bytes]:
    """Return the patterns of the holes, in the order of the text."""
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
    """Return the metadata with ``texts`` in the holes."""
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
