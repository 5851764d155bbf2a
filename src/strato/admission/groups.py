"""The admission configuration: resource groups of pods, as ``--admission-conf`` names it (spec volcano-api 19.1)."""

from __future__ import annotations

import json
from pathlib import Path

from strato.admission.pods import ResourceGroup
from strato.api import yamltext
from strato.api.meta import Json
from strato.errors import InvalidInput, Problem, one_line

_KEYS = ("annotation", "namespace", "")


def load_groups(path: Path) -> tuple[ResourceGroup, ...]:
    """Read the file.

    Raises:
        InvalidInput: It cannot be read, or groups in it are wrong; all problems are listed.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise InvalidInput("the admission configuration", [Problem(str(path), str(error.strerror))]) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "the admission configuration", [Problem(str(path), f"is not UTF-8 text: {error}")]
        ) from error
    return read_groups(text, str(path))


def read_groups(text: str, where: str) -> tuple[ResourceGroup, ...]:
    """Read the configuration's text.

    Raises:
        InvalidInput: Groups in it are wrong; all problems are listed.
    """
    try:
        body = yamltext.load(text)
    except yamltext.InvalidYaml as error:
        raise InvalidInput("the admission configuration", [Problem(where, f"not YAML: {one_line(error)}")]) from error
    listed = (body or {}).get("resourceGroups", []) if isinstance(body, dict | None) else None
    if not isinstance(listed, list | None):
        message = "resourceGroups is a list of groups; write resourceGroups: [{resourceGroup: …}]"
        raise InvalidInput("the admission configuration", [Problem(where, message)])
    problems: list[Problem] = []
    groups = [_group(entry, f"{where}: resourceGroups[{index}]", problems) for index, entry in enumerate(listed or ())]
    if problems:
        raise InvalidInput("the admission configuration", problems)
    return tuple(group for group in groups if group is not None)


def _group(entry: object, where: str, problems: list[Problem]) -> ResourceGroup | None:
    if not isinstance(entry, dict) or not entry.get("resourceGroup"):
        problems.append(Problem(where, "a group is a map with resourceGroup, its name"))
        return None
    found = len(problems)
    target = entry.get("object") or {}
    key = str(target.get("key") or "")
    if key not in _KEYS:
        problems.append(Problem(f"{where}.object.key", f"{key!r} is unknown; write annotation or namespace"))
    values = target.get("value") or []
    if not isinstance(values, list):
        problems.append(Problem(f"{where}.object.value", f"must be a list, is {values!r}"))
    labels = entry.get("labels") or {}
    if not isinstance(labels, dict):
        problems.append(Problem(f"{where}.labels", f"must be a map, is {labels!r}"))
    affinity = entry.get("affinity") or ""
    if affinity and not _is_json_object(affinity):
        problems.append(Problem(f"{where}.affinity", "must be a v1 Affinity as JSON text"))
    tolerations = entry.get("tolerations") or []
    if not isinstance(tolerations, list) or not all(isinstance(one, dict) for one in tolerations):
        problems.append(Problem(f"{where}.tolerations", "must be a list of maps"))
    if len(problems) > found:
        return None
    return ResourceGroup(
        resource_group=str(entry["resourceGroup"]),
        object_key=key,
        object_values=tuple(map(str, values)),
        scheduler_name=str(entry.get("schedulerName") or ""),
        tolerations=tuple(_toleration(one) for one in tolerations),
        labels={str(name): str(value) for name, value in labels.items()} or None,
        affinity=affinity,
    )


def _toleration(given: Json) -> Json:
    """Volcano reads the keys of tolerations in lower case only; both spellings are taken here."""
    return {"tolerationSeconds" if key.lower() == "tolerationseconds" else key: value for key, value in given.items()}


def _is_json_object(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
