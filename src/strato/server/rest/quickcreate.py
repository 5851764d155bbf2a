"""Creation of objects alike others: what was stored of those is stored again, only the metadata are worked on.

The order of the steps is that of the long way (`Writer.create`), so that of two things wrong the same one is told.
"""

from __future__ import annotations

from strato.api.status import invalid, required
from strato.api.wire import Request, Response
from strato.server import objects
from strato.server.alike import Known, Plan
from strato.server.objects import Json, encode
from strato.server.path import ResourcePath
from strato.server.rest import quotas, storing
from strato.server.rest.layouts import of_created
from strato.server.rest.state import State
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
    quotas.charge(state, kind, target.namespace, obj, dry_run=False)
    revision = metadata["resourceVersion"] = str(state.store.next_revision())
    encoded = encode(metadata)
    tail, behind = known.ending(metadata["creationTimestamp"])
    body = b"".join((plan.head, encoded, tail))
    if len(body) > objects.MAX_BODY_BYTES:
        raise objects.too_large(kind, obj)
    state.store.write(kind.resource, key, body)
    at = of_created(kind.api_version, metadata["uid"], len(plan.head), len(encoded), revision, behind)
    state.layouts.note(body, at)
    return storing.answer(state, request, kind, body, warnings, status=201)


_METADATA = typed.is_clean("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
