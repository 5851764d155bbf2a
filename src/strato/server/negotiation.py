"""Content negotiation: the media type and the form of objects that a client accepts, by its Accept header.

Source: kube-apiserver's behaviour. Clauses are tried by weight, those with wildcards last; a clause that asks for a
form that the server does not have (a transformation, a stream) is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strato.lru import memoised

JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
TABLE, METADATA, METADATA_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
_TARGETS = (TABLE, METADATA, METADATA_LIST)
_META_GROUP, _VERSIONS = "meta.k8s.io", ("v1", "v1beta1")
_PLAIN = frozenset(("", JSON, "*/*", f"{JSON}, */*", f"{JSON},*/*"))
_CLAUSES_MAX = 64
"""Most clauses that are parsed; clients send fewer than ten."""


class Accepted(NamedTuple):
    """The media type and form to answer with."""

    media: str = JSON
    target: str = ""
    """`TABLE`, `METADATA` or `METADATA_LIST`; empty is the object itself."""
    version: str = "v1"
    """Version of the form's group."""


PLAIN_JSON = Accepted()
"""Plain JSON, as for nearly all requests."""


class _Clause(NamedTuple):
    media: str
    weight: float
    parameters: dict[str, str]


def is_plain(accept: str) -> bool:
    """Tell whether an Accept header asks for plain JSON, as nearly all do."""
    return accept in _PLAIN


def accepted(accept: str, *, in_protobuf: bool = True, as_table: bool = True) -> Accepted | None:
    """Return the form to answer a client with; None if it accepts none that the server has.

    Args:
        accept: The header; an empty one accepts everything.
        in_protobuf: Whether the objects can be encoded as protobuf (those of custom kinds cannot).
        as_table: Whether they can be rows of a table.
    """
    if accept in _PLAIN:
        return PLAIN_JSON
    for choice in _choices(accept):
        is_whole_protobuf = choice.media == PROTOBUF and not choice.target
        if (in_protobuf or not is_whole_protobuf) and (as_table or choice.target != TABLE):
            return choice
    return None


@memoised(256 * 1024, 1024)
def _choices(accept: str) -> tuple[Accepted, ...]:
    clauses = list(_clauses(accept))
    clauses.sort(key=lambda one: (-one.weight, one.media.startswith("*/"), one.media.endswith("/*")))
    return tuple(choice for clause in clauses for choice in _of_clause(clause))


def _clauses(accept: str) -> Iterator[_Clause]:
    for text in accept.split(",", _CLAUSES_MAX)[:_CLAUSES_MAX]:
        media, *options = (part.strip() for part in text.split(";"))
        parameters = {name.strip(): value.strip(' "') for name, _, value in (one.partition("=") for one in options)}
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            weight = 1.0
        yield _Clause(media.lower(), weight, parameters)


def _of_clause(clause: _Clause) -> Iterator[Accepted]:
    media, _, given = clause
    if given.get("stream", "watch") not in ("", "watch") or given.get("sv", "v1") not in ("", "v1"):
        return
    version = given.get("v", "")
    target = given.get("as", "")
    is_plain_object = not (target or version or "g" in given)
    if not is_plain_object and (target not in _TARGETS or given.get("g") != _META_GROUP or version not in _VERSIONS):
        return
    for served in (JSON, PROTOBUF):
        if media in (served, "*/*", "application/*") and not (served == PROTOBUF and target == TABLE):
            yield Accepted(served, target, version or "v1")
