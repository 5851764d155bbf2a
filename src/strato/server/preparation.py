"""Prepare objects for storage: decode, apply the rules of metadata, check; pure but for clock and random."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from strato.api import catalog, defaults, validation
from strato.api.kinds import Kind
from strato.api.meta import Json as Json
from strato.api.status import invalid, invalid_value
from strato.api.wire import Request
from strato.clock import Clock, format_time
from strato.errors import BadRequest, Cause, TooLarge
from strato.http.parser import MAX_BODY_BYTES
from strato.server import podsubresources
from strato.server.bodies import YAML_ERRORS, read_body
from strato.server.flowcontrol.timeslice import alone
from strato.server.registry import Served
from strato.server.schema import builtin, violations
from strato.server.strategies import kept_by_status, strategy_of

_FRACTION = re.compile(rb"\.\d+(?:[eE][+-]?\d+)?\s*(?:[,}\]]|$)", re.MULTILINE)
"""Matches the end of a number with a fraction; also inside strings, where it only causes needless work."""
_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_decode = msgspec.json.Decoder().decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
_canonical: Callable[[Any], bytes] = msgspec.json.Encoder(order="sorted").encode


def read_typed(kind: Kind, request: Request) -> Json:
    """Decode the body of a request that asks something instead of storing an object (a review), and check its type.

    Raises:
        BadRequest: It cannot be decoded, or is something else.
    """
    try:
        obj = read_body(request.body, request.headers.get("content-type", ""))
    except BadRequest as error:
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {error}") from error
    obj = check_type(Served(kind), obj)
    _, wrong = builtin.typed(kind, obj)
    if wrong:
        raise BadRequest(unhandled(kind, wrong[0]))
    return obj


def write_whole_numbers(served: Served, request: Request, value: Any) -> None:
    """Replace 1.0 by 1 in a custom object's body, also in fields without a schema, as Go encodes it so."""
    if served.is_custom and _FRACTION.search(request.body):
        violations.write_whole_numbers(value)


def unrecognized(kind: Kind, reason: str) -> BadRequest:
    """``the object provided is unrecognized (must be of type Pod): …``."""
    return BadRequest(f"the object provided is unrecognized (must be of type {kind.name}): {reason}")


def check_type(served: Served, obj: Any) -> Json:
    """Return ``obj`` if it is of the URL's kind; objects of built-in kinds may lack apiVersion and kind.

    Raises:
        BadRequest: It is of another type.
        Invalid: It is of another custom kind of the same version.
    """
    kind = served.kind
    if obj is None:
        obj = {}
    if not isinstance(obj, dict):
        raise unrecognized(kind, "couldn't get version/kind; json parse error: the body is not an object")
    for member in ("apiVersion", "kind"):
        value = obj.get(member)
        if value is not None and not isinstance(value, str):
            text = f"json: cannot unmarshal {violations.json_type(value)} into Go struct field .{member} of type string"
            raise unrecognized(kind, f"couldn't get version/kind; json parse error: {text}")
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        found = "array" if isinstance(metadata, list) else type(metadata).__name__
        text = f"json: cannot unmarshal {found} into Go struct field {kind.name}.metadata of type v1.ObjectMeta"
        raise BadRequest(unhandled(kind, text))
    if served.is_custom and not (obj.get("kind") and obj.get("apiVersion")):
        missing = "apiVersion" if obj.get("kind") else "Kind"
        raise unrecognized(kind, f"Object '{missing}' is missing")
    version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.name
    obj["apiVersion"], obj["kind"] = version, name
    if (version, name) == (kind.api_version, kind.name):
        return obj
    if served.is_custom and version == kind.api_version:
        named = Kind(kind.group, kind.version, str(name), kind.plural)
        raise invalid(named, metadata.get("name", ""), [invalid_value("kind", name, f"must be {kind.name}")])
    raise BadRequest(
        f'{name} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {kind.name}: the object '
        f'provided is unrecognized (must be of type {kind.name} in version "{kind.api_version}")'
    )


def check_fields(served: Served, obj: Json, mode: str) -> list[str]:
    """Drop unknown fields, and return warnings about them according to ``fieldValidation``.

    Raises:
        BadRequest: As `drop_unknown` and `strict` do.
    """
    return strict(drop_unknown(served, obj), mode)


def drop_unknown(served: Served, obj: Json) -> list[str]:
    """Drop unknown fields, and return a problem for each.

    Raises:
        BadRequest: A field has the wrong JSON type.
    """
    unknown, wrong = builtin.typed(served.kind, obj) if served.schema is None else served.schema.prune(obj)
    if wrong:
        raise BadRequest(unhandled(served.kind, wrong[0]))
    return unknown


def strict(problems: list[str], mode: str) -> list[str]:
    """Return the warnings about unknown and repeated fields for a ``fieldValidation`` mode.

    Raises:
        BadRequest: The mode is Strict and there are problems; it lists all.
    """
    if problems and mode == "Strict":
        raise BadRequest("strict decoding error: " + ", ".join(problems))
    if mode == "Ignore":
        return []
    return [line.strip() for text in problems for line in text.removeprefix(YAML_ERRORS).splitlines()]


def unhandled(kind: Kind, reason: str) -> str:
    """``Pod in version "v1" cannot be handled as a Pod: …``."""
    return f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {reason}'


def unique_owners(metadata: Json) -> list[str]:
    """Drop duplicate owner references, in place, and return the warning about them."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return []
    counts = Counter(str(owner.get("uid")) for owner in owners if isinstance(owner, dict))
    repeated = sorted(uid for uid, count in counts.items() if count > 1)
    if not repeated:
        return []
    unique = {_canonical(owner): owner for owner in reversed(owners)}
    metadata["ownerReferences"] = list(reversed(unique.values()))
    return [
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        f"reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        f"{', '.join(repeated)}"
    ]


def fill_defaults(served: Served, obj: Json) -> None:
    """Apply server-side defaults."""
    if served.schema is not None:
        served.schema.default(obj)
    else:
        defaults.apply_defaults(served.kind, obj)


def validate(served: Served, obj: Json, old: Json | None, subresource: str = "") -> None:
    """Check an object that is about to be stored, perhaps through a subresource.

    Raises:
        Invalid: With every cause.
    """
    kind = served.kind
    causes = list(
        validation.validate_create(kind, obj, custom=served.is_custom)
        if old is None
        else validation.validate_update(kind, obj, old, subresource, custom=served.is_custom)
    )
    if served.schema is not None:
        causes += served.schema.validate(obj, old)
    if served.form is not None:
        causes += served.form.check(obj, old)
    if causes:
        error = invalid(kind, obj["metadata"].get("name", ""), causes)
        alone(causes.clear)  # frees those that the error does not name, of which there may be tens of thousands
        raise error


def validate_metadata(served: Served, obj: Json) -> None:
    """Check the metadata of a new object whose other members are known to be valid.

    Raises:
        Invalid: With every cause.
    """
    causes = validation.validate_create(served.kind, obj, only_metadata=True, custom=served.is_custom)
    if causes:
        raise invalid(served.kind, obj["metadata"].get("name", ""), causes)


def validate_status(served: Served, obj: Json, old: Json, name: str) -> None:
    """Check only the status of a custom object called ``name``; ``served`` is `Served.status`.

    Raises:
        Invalid: With every cause.
    """
    assert served.schema is not None
    causes = [
        # kube-apiserver validates the status as a document of its own, so its messages name paths inside it
        Cause(cause.reason, cause.message.replace(f": {cause.field} in", f": {cause.field[7:]} in"), cause.field)
        for cause in served.schema.validate(obj, old)
    ]
    if causes:
        raise invalid(served.kind, name, causes)


def begin_metadata(metadata: Json) -> None:
    """Drop what a client may not set on a new object.

    Raises:
        BadRequest: The client has set a resource version.
    """
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for member in _NOT_SET:
        if member in metadata:
            del metadata[member]
    _drop_empty(metadata)


def identify(served: Served, metadata: Json, clock: Clock, rng: random.Random) -> None:
    """Set a new object's uid, creation time and generation, and its name if it has only ``generateName``."""
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"], rng)
    metadata["uid"] = new_uid(rng)
    metadata["creationTimestamp"] = format_time(clock.now())
    if strategy_of(served).counts_generations:
        metadata["generation"] = 1
    elif not metadata.get("generation"):  # the server does not count it for this kind, and keeps a client's
        metadata.pop("generation", None)


def begin_again(served: Served, obj: Json, before: Json) -> None:
    """Undo what admission may not change in a new object; ``before`` has what the server itself has set."""
    metadata = obj["metadata"]
    metadata.pop("resourceVersion", None)
    begin_metadata(metadata)
    _restore(metadata, before["metadata"], ("uid", "creationTimestamp", "generation"))
    begin_status(served, obj)


def begin_status(served: Served, obj: Json) -> None:
    """Set a new object's initial status."""
    if not served.is_custom:
        defaults.initial_status(served.kind, obj)
    elif served.kind.has_status:
        obj.pop("status", None)


_NOT_SET = ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink")


def generated_name(prefix: str, rng: random.Random) -> str:
    """Return a name from ``generateName``: the prefix and five characters, 63 at most."""
    return prefix[:58] + "".join(rng.choices(_SUFFIX_CHARACTERS, k=5))


def at_revision(body: bytes, revision: int) -> bytes:
    """Return a stored body with another resource version, for the event of an object that is deleted or deselected."""
    members = _read_members(body)  # only metadata is decoded: the other members may be large
    metadata = _decode(members["metadata"])
    metadata["resourceVersion"] = str(revision)
    return encode({**members, "metadata": metadata})


def too_large(kind: Kind, obj: Json) -> TooLarge:
    """Return the error for an object that cannot be stored."""
    return TooLarge(f'{kind.name} "{obj["metadata"].get("name", "")}" is over the limit of {MAX_BODY_BYTES} bytes')


def new_uid(rng: random.Random) -> str:
    """Return a random (version 4) UUID from the injected generator."""
    octets = (rng.getrandbits(128) & _UID_FREE | _UID_FIXED).to_bytes(16)
    return f"{octets[:4].hex()}-{octets[4:10].hex('-', 2)}-{octets[10:].hex()}"


_UID_FREE = (1 << 128) - 1 & ~(0xF << 76) & ~(0x3 << 62)
_UID_FIXED = (0x4 << 76) | (0x2 << 62)
"""The bits of a UUID that hold its version and variant."""

_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generation",
)


def check_fixed(kind: Kind, obj: Json, old: Json) -> None:
    """Check that an update changes no member of metadata that is fixed.

    Raises:
        Invalid: The uid or the deletion time or grace period differs from the stored one.
    """
    metadata, before = obj["metadata"], old["metadata"]
    causes = [
        invalid_value(f"metadata.{member}", metadata[member], "field is immutable")
        for member in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(member) and metadata[member] != before.get(member)
    ]
    if causes:
        raise invalid(kind, before["name"], causes)


def prepare_update(served: Served, obj: Json, old: Json, *, subresource: str) -> None:
    """Restore in ``obj``, in place, what this update may not change.

    A kind with a status subresource keeps its old status in an update of the main resource. An update of the
    ``status`` subresource keeps everything but the status and, for built-in kinds, the metadata. A kind without that
    subresource takes its status from the main resource. Other subresources of pods change a part of the spec.
    """
    kind = served.kind
    if subresource == "status" and served.is_custom:
        obj["metadata"] = {**old["metadata"]}
    elif kind is catalog.POD and subresource in podsubresources.ALL:
        podsubresources.keep_rest(subresource, obj, old)
    metadata, before = obj["metadata"], old["metadata"]
    if subresource == "status":
        _restore(metadata, before, kept_by_status(kind))
    _restore(metadata, before, _SERVER_OWNED)
    metadata.pop("managedFields", None)
    metadata["name"] = before["name"]
    _drop_empty(metadata)
    if subresource == "status":
        sent = {member: value for member, value in obj.items() if member in _ABOUT_STATUS}
        obj.clear()
        for member, value in old.items():  # in their old order
            if member not in _ABOUT_STATUS:
                obj[member] = value
            elif member in sent:
                obj[member] = sent.pop(member)
        obj.update(sent)
        if not served.is_custom and obj.get("status") is None:
            obj["status"] = {}  # built-in kinds always have one in Kubernetes: a JSON patch may add members
        if isinstance(obj.get("status"), dict):
            complete_status(kind, obj["status"], old.get("status") or {})
        return
    if kind.has_status and subresource not in _ABOUT_MORE:
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)


def _restore(metadata: Json, before: Json, members: Iterable[str]) -> None:
    for member in members:
        if member in before:
            metadata[member] = before[member]
        else:
            metadata.pop(member, None)


def count_generation(kind: Kind, obj: Json, old: Json) -> None:
    """Increment the generation if the desired state has changed; to be called after admission, which may change it."""
    if kind is catalog.PRIORITYCLASS:  # keeps generation 1 in Kubernetes
        return
    if "generation" in old["metadata"] and _desired(kind, obj) != _desired(kind, old):
        obj["metadata"]["generation"] = old["metadata"]["generation"] + 1


def number_template(obj: Json, old: Json | None) -> None:
    """Note in a DaemonSet's metadata how often its template has changed, as Kubernetes does for older clients."""
    annotations = obj["metadata"].get("annotations") or {}
    if old is None:
        given = annotations.get(_TEMPLATE_GENERATION) or ""
        number = int(given) if given.isdecimal() and len(given) <= _MOST_DIGITS else 1
    else:
        number = int((old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or 1)
        number += (obj.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(max(1, number))}


_TEMPLATE_GENERATION, _MOST_DIGITS = "deprecated.daemonset.template.generation", 18


def complete_status(kind: Kind, status: Json, before: Json) -> None:
    """Add what a new status of a built-in kind has to have, in place.

    A pod keeps its QoS class, which never changes; other kinds are never without what they begin with, as a phase.
    """
    if kind is catalog.POD and "qosClass" in before:
        status.setdefault("qosClass", before["qosClass"])
        return
    for member, first in defaults.first_status(kind).items():
        if status.get(member) is None or (member == "phase" and not status[member]):
            status[member] = first


def _drop_empty(metadata: Json) -> None:
    """Remove empty collections, in place, as Go does when it encodes metadata."""
    for member in _COLLECTIONS:
        if member in metadata and not metadata[member]:
            del metadata[member]


_COLLECTIONS = ("labels", "annotations", "finalizers", "ownerReferences")
_ABOUT_MORE = frozenset(("approval",))
"""Subresources that write a part of the status, so `prepare_update` must not restore the old one."""
_ABOUT_STATUS = frozenset(("apiVersion", "kind", "metadata", "status"))


def _desired(kind: Kind, obj: Json) -> Json:
    """Return the desired state: the part of an object whose change increments the generation."""
    ignored = ("metadata", "status") if kind.has_status or kind.plural == "podgroups" else ("metadata",)
    wanted = {name: value for name, value in obj.items() if name not in ignored}
    if kind is catalog.ENDPOINTSLICE:  # its labels name the Service it belongs to
        wanted["labels"] = obj["metadata"].get("labels")
    return wanted
