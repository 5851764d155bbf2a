"""Rules of ``metadata``, for every kind."""

from __future__ import annotations

from collections.abc import Callable

from strato.api import names
from strato.api.meta import Json
from strato.api.status import TOO_LONG, forbidden_field, invalid_value, required
from strato.errors import Cause

NameCheck = Callable[[str], list[str]]

ANNOTATIONS_MAX_BYTES = 256 * 1024

_IMMUTABLE = "field is immutable"
_FINALIZER_NAMES = frozenset({"foregroundDeletion", "orphan", "kubernetes"})
_EXCLUSIVE = {"foregroundDeletion", "orphan"}
_NO_OWNERS = frozenset({("v1", "Event")})
"""Kinds that may not be owners, because such objects are short-lived."""


def validate_metadata(
    metadata: Json,
    *,
    namespaced: bool,
    custom: bool = False,
    check_name: NameCheck = names.check_subdomain,
    field: str = "metadata",
) -> list[Cause]:
    """Check an object's metadata; ``generateName`` has been expanded, or its prefix is checked."""
    causes: list[Cause] = []
    get = metadata.get
    prefix = get("generateName")
    if prefix:
        # The server appends random letters, so the prefix is checked as if they were there.
        causes += [invalid_value(f"{field}.generateName", prefix, text) for text in check_name(_masked(prefix))]
    name = get("name")
    if not name:
        causes.append(required(f"{field}.name", "name or generateName is required"))
    else:
        causes += [invalid_value(f"{field}.name", name, text) for text in check_name(name)]
    namespace = get("namespace")
    if namespaced:
        if not namespace:
            causes.append(required(f"{field}.namespace"))
        elif not names.is_label(namespace):
            causes += [invalid_value(f"{field}.namespace", namespace, text) for text in names.check_label(namespace)]
    elif namespace:
        causes.append(forbidden_field(f"{field}.namespace", "not allowed on this type"))
    labels = get("labels")
    if labels:
        validate_labels(labels, f"{field}.labels", causes)
    annotations = get("annotations")
    if annotations:
        validate_annotations(annotations, f"{field}.annotations", causes)
    owners = get("ownerReferences")
    if owners:
        _validate_owners(owners, f"{field}.ownerReferences", causes)
    finalizers = get("finalizers")
    if finalizers:
        _validate_finalizers(finalizers, f"{field}.finalizers", custom, causes)
    return causes


def _masked(prefix: str) -> str:
    return prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def validate_labels(labels: Json, field: str, causes: list[Cause]) -> None:
    """Check keys and values of labels; appends to ``causes``."""
    if all(map(names.is_qualified_name, labels)) and all(map(names.is_label_value, labels.values())):
        return  # the usual case, checked by two loops that run in C
    for key, value in labels.items():
        if not names.is_qualified_name(key):
            causes += [invalid_value(field, key, text) for text in names.check_qualified_name(key)]
        if not names.is_label_value(value):
            causes += [invalid_value(field, value, text) for text in names.check_label_value(value)]


def validate_annotations(annotations: Json, field: str, causes: list[Cause]) -> None:
    """Check keys and the total size of annotations; appends to ``causes``."""
    size = sum(map(len, annotations)) + sum(map(_length_bytes, annotations.values()))
    if size <= ANNOTATIONS_MAX_BYTES and all(map(names.is_qualified_name, annotations)):
        return
    for key in annotations:
        if not names.is_qualified_name(key) and (complaints := names.check_qualified_name(key.lower())):
            causes += [invalid_value(field, key, text) for text in complaints]
    if size > ANNOTATIONS_MAX_BYTES:
        causes.append(Cause(TOO_LONG, f"Too long: may not be more than {ANNOTATIONS_MAX_BYTES} bytes", field))


def _length_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _validate_owners(owners: list[Json], field: str, causes: list[Cause]) -> None:
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion") or ""
        if not version or version.count("/") > 1:  # Kubernetes reads an invalid version as an empty one
            causes.append(invalid_value(f"{field}.apiVersion", version, "version must not be empty"))
        if (version, owner.get("kind")) in _NO_OWNERS:
            text = f"/{version}, Kind={owner['kind']} is disallowed from being an owner"
            causes.append(invalid_value(field, owner, text))
        missing = [member for member in ("kind", "name", "uid") if not owner.get(member)]
        causes += [invalid_value(f"{field}.{member}", "", "must not be empty") for member in missing]
        if owner.get("controller"):
            described = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                causes.append(
                    invalid_value(
                        field,
                        owners,
                        "Only one reference can have Controller set to true. "
                        f'Found "true" in references for {controller} and {described}',
                    )
                )
            controller = described


def _validate_finalizers(finalizers: list[str], field: str, custom: bool, causes: list[Cause]) -> None:
    for index, finalizer in enumerate(finalizers):
        causes += [invalid_value(field, finalizer, text) for text in names.check_qualified_name(finalizer)]
        if not custom and "/" not in finalizer and finalizer not in _FINALIZER_NAMES:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid_value(f"{field}[{index}]", finalizer, text))
    if set(finalizers) >= _EXCLUSIVE:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value(field, finalizers, text))


def validate_metadata_update(new: Json, old: Json, *, custom: bool = False, field: str = "metadata") -> list[Cause]:
    """Check that immutable metadata is unchanged."""
    causes: list[Cause] = []
    for member in ("name", "namespace", "uid", "creationTimestamp"):
        given, kept = new.get(member), old.get(member)
        if given is not None and given != kept:
            causes.append(invalid_value(f"{field}.{member}", given, _IMMUTABLE))
    deleted = old.get("deletionTimestamp")
    if deleted is not None:
        known = set(old.get("finalizers") or ())
        added = [name for name in new.get("finalizers") or () if name not in known]
        if added:
            quoted = ", ".join(f'"{name}"' for name in sorted(added))
            causes.append(
                forbidden_field(
                    f"{field}.finalizers",
                    f"no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{quoted}}}",
                )
            )
    labels = new.get("labels")
    if labels and labels != old.get("labels"):
        validate_labels(labels, f"{field}.labels", causes)
    annotations = new.get("annotations")
    if annotations and annotations != old.get("annotations"):
        validate_annotations(annotations, f"{field}.annotations", causes)
    owners = new.get("ownerReferences")
    if owners and owners != old.get("ownerReferences"):
        _validate_owners(owners, f"{field}.ownerReferences", causes)
    if new.get("finalizers") != old.get("finalizers"):
        _validate_finalizers(new.get("finalizers") or [], f"{field}.finalizers", custom, causes)
    return causes


def immutable(field: str, value: object) -> Cause:
    """``spec.x: Invalid value: …: field is immutable``."""
    return invalid_value(field, value, _IMMUTABLE)
