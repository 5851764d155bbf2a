"""The answer to a body whose fields have the wrong JSON types."""

from __future__ import annotations

import msgspec

from strato.api.kinds import Kind
from strato.errors import BadRequest


def malformed(kind: Kind, obj: object) -> BadRequest:
    """Return the error that names the bad field, by decoding the object as its view; slow, for failed requests only."""
    where = "an unexpected type of value"
    try:
        msgspec.convert(obj, kind.view)
    except msgspec.ValidationError as err:
        where = str(err)
    return BadRequest(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: json: cannot unmarshal: {where}'
    )
