"""The answer to a body whose fields have the wrong JSON types."""

from __future__ import annotations

import msgspec

from strato.api.kinds import Kind
from strato.errors import BadRequest


def malformed(kind: Kind, obj: object) -> BadRequest:
    """Say which field cannot be read, by reading the object as its view. Slow; only for what failed already."""
    where = "an unexpected type of value"
    try:
        msgspec.convert(obj, kind.view)
    except msgspec.ValidationError as err:
        where = str(err)
    return BadRequest(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: json: cannot unmarshal: {where}'
    )
