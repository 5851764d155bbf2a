"""Create the objects of an owner, many in one call, and return the objects that exist then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from strato.api.catalog import kind_of
from strato.api.meta import Object, ObjectMeta
from strato.client.cluster import Cluster, Created
from strato.controllers.parallel import for_each
from strato.errors import AlreadyExists, ApiError, StratoError

V = TypeVar("V", bound=Object)
Body = Mapping[str, Any]

_CONCURRENT: Final = 32


async def create_owned(
    cluster: Cluster, view: type[V], owner: ObjectMeta, bodies: Sequence[Body]
) -> tuple[list[V], list[StratoError]]:
    """Create objects of an owner in its namespace; an object of the owner that exists already counts as created.

    Returns:
        The objects, of whose server-set members only uid and resource version are known; and the failures.
    """
    kind, there, failures = kind_of(view), list[V](), list[StratoError]()

    async def create(batch: Sequence[Body]) -> None:
        answers = await cluster.create_all(kind, batch, owner.namespace)
        for body, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Created):
                there.append(_stored(view, body, answer, owner.namespace))
            elif isinstance(answer, AlreadyExists):
                present = await cluster.get(view, body["metadata"]["name"], owner.namespace)
                holder = present.metadata.controller
                if holder is not None and holder.uid == owner.uid:
                    there.append(present)
                else:
                    failures.append(answer)
            else:
                assert isinstance(answer, ApiError), "nothing else is answered"
                failures.append(answer)

    size = max(1, cluster.at_once)
    batches = [bodies[start : start + size] for start in range(0, len(bodies), size)]
    failures += await for_each(batches, create, _CONCURRENT)
    return there, failures


def _stored(view: type[V], body: Body, made: Created, namespace: str) -> V:
    """Return the view of an object that was created from a body."""
    sent = msgspec.convert(body, view)
    known = msgspec.structs.replace(
        sent.metadata,
        name=made.name,
        namespace=namespace,
        uid=made.uid,
        resource_version=made.resource_version,
    )
    return msgspec.structs.replace(sent, metadata=known)
