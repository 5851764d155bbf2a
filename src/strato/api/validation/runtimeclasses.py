"""Rules of RuntimeClasses."""

from __future__ import annotations

from strato.api import names
from strato.api.meta import Json
from strato.api.status import invalid_value, required
from strato.api.validation.containers import validate_amounts
from strato.api.validation.metadata import immutable, validate_labels
from strato.api.validation.podspec import validate_toleration
from strato.errors import Cause


def validate_runtime_class(obj: Json) -> list[Cause]:
    """Check the handler, the overhead and where pods of the class may run."""
    handler = obj.get("handler") or ""
    causes = [invalid_value("handler", handler, text) for text in names.check_label(handler)] if handler else []
    if not handler:
        causes.append(required("handler"))
    amounts = (obj.get("overhead") or {}).get("podFixed")
    if amounts:
        validate_amounts(amounts, "overhead.limits", causes)
    scheduling = obj.get("scheduling") or {}
    validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector", causes)
    for index, toleration in enumerate(scheduling.get("tolerations") or ()):
        validate_toleration(toleration, f"scheduling.tolerations[{index}]", causes)
    return causes


def validate_runtime_class_update(obj: Json, old: Json) -> list[Cause]:
    """Refuse another handler."""
    return [immutable("handler", obj.get("handler"))] if obj.get("handler") != old.get("handler") else []
