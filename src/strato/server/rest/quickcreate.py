"""Creation of objects alike others: what was stored of those is stored again, only the metadata are worked on.

The order of the steps is that of the long way (`Writer.create`), so that of two things wrong the same one is told.
"""

from __future__ import annotations

import re

from strato.api.status import invalid, required
from strato.api.wire import Request, Response
from strato.clock import format_time
from strato.http.parser import MAX_BODY_BYTES
from strato.server import objects
from strato.server.alike import Formed, Known, Plan
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath
from strato.server.rest import quotas, storing
from strato.server.rest.layouts import of_created
from strato.server.rest.state import State, object_key
from strato.server.schema import typed


def create(
    state: State, request: Request, target: ResourcePath, metadata: Json, plan: Plan, known: Known
) -> Response | None:
    """Create an object and answer it; None when the long way has to be taken.

    Args:
        state: Where.
        request: Without options.
        target: The kind's objects of a namespace.
        metadata: As they were sent; changed in place.
        plan: How the object was recognised.
        known: What is known of one that is alike.
    """
    served, kind = plan.served, plan.served.kind
    if not _METADATA(metadata):
        return None
    obj: Json = {**known.rest, "metadata": metadata}
    question = storing.question(request, target, kind, "CREATE", obj, None)
    for fits in plan.alike.fits:
        if not fits(question):
            return None
    objects.check_namespace(kind, obj, target.namespace)
    warnings = objects.unique_owners(metadata)
    state.check_namespace_open(kind, target.namespace, metadata.get("name", ""))
    objects.begin_metadata(served, metadata, state.clock, state.rng)
    if not metadata.get("name"):
        raise invalid(kind, "", [required("metadata.name", "name or generateName is required")])
    objects.validate_metadata(kind, obj)
    key = storing.free_key(state, kind, metadata)
    quotas.charge(state, kind, target.namespace, obj)
    revision = metadata["resourceVersion"] = str(state.store.next_revision())
    encoded = encode(metadata)
    tail, behind = known.ending(metadata["creationTimestamp"])
    body = b"".join((plan.head, encoded, tail))
    if len(body) > MAX_BODY_BYTES:
        raise objects.too_large(kind, obj)
    state.store.write(kind.resource, key, body)
    at = of_created(kind.api_version, metadata["uid"], len(plan.head), len(encoded), revision, behind)
    state.layouts.note(body, at)
    return storing.answer(state, request, kind, body, warnings, status=201)


def create_formed(
    state: State, request: Request, target: ResourcePath, formed: Formed, match: re.Match[bytes]
) -> Response | None:
    """Create an object whose metadata have the form of others; None when one of the longer ways has to be taken.

    Such metadata have all that `create` would check: no more than what differs is looked at.

    Args:
        state: Where.
        request: Without options.
        target: The kind's objects of a namespace.
        formed: What is known of the others.
        match: What differs.
    """
    plan, known = formed.plan, formed.known
    kind, name = plan.served.kind, match["name"].decode()
    if quotas.are_any(state):
        return None
    for fits in plan.alike.by_name:
        if not fits(name, known.rest):
            return None
    state.check_namespace_open(kind, target.namespace, name)
    uid, time = objects.new_uid(state.rng), format_time(state.clock.now())
    key = object_key(kind, target.namespace, name)
    if state.bucket(kind).latest(key) is not None:
        storing.free_key(state, kind, {"namespace": target.namespace, "name": name})  # says what is wrong with that
    revision = str(state.store.next_revision())
    metadata = b'%b,"uid":"%b","creationTimestamp":"%b"%b,"resourceVersion":"%b"}' % (
        formed.form.begin(match),
        uid.encode(),
        time.encode(),
        plan.generation,
        revision.encode(),
    )
    tail, behind = known.ending(time)
    body = b"".join((plan.head, metadata, tail))
    if len(body) > MAX_BODY_BYTES:
        raise objects.too_large(kind, {"metadata": {"name": name}})
    state.store.write(kind.resource, key, body)
    state.layouts.note(body, of_created(kind.api_version, uid, len(plan.head), len(metadata), revision, behind))
    return storing.answer(state, request, kind, body, (), status=201)


_METADATA = typed.is_clean("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
