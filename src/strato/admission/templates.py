"""Pod templates of custom kinds, validated and defaulted as pods; cached, as jobs by the hundred have the same few."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from strato.admission.request import Json
from strato.api.defaults.pod import default_template_spec
from strato.api.validation.podspec import validate_template
from strato.errors import Cause

_REMEMBERED_BYTES = 16 << 10
"""Results for larger templates are not cached."""


def template_causes(text: bytes) -> Sequence[Cause]:
    """Return what is wrong with a template, given as JSON; the fields begin with ``template``."""
    judge = _judge_template if len(text) <= _REMEMBERED_BYTES else _judge_template.__wrapped__
    return judge(text)


def defaulted_template(text: bytes) -> Json:
    """Return a template, given as JSON, with the defaults that a pod of it would get."""
    template: Json = msgspec.json.decode(text)
    default_template_spec(template)
    return template


@lru_cache(maxsize=256)
def _judge_template(text: bytes) -> tuple[Cause, ...]:
    return tuple(validate_template(defaulted_template(text), "template"))
