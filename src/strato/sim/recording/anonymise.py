"""`Anonymiser`: replaces names in a log by hashes with a secret key, equal names by equal hashes, so it can be shared.

Every text is hashed unless it is known to be a word of the API (``Running``, ``NoSchedule``), a quantity, an instant or
a number. So a field that this module does not know is hashed too. Keys of labels and annotations are kept if their
prefix belongs to Kubernetes or Volcano. The scheduler's configuration is kept, as a replay needs the policy.
"""

from __future__ import annotations

import functools
import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from strato.api.meta import Object
from strato.scheduler.cache import kinds
from strato.sim.recording import entries as e

_DIGEST_BYTES: Final = 8
_KNOWN: Final = frozenset(
    (
        *("", "default", "root", "volcano", "poseidon", "default-scheduler", "agent-scheduler", "kube-system"),
        *("kube-public", "kube-node-lease", "system-node-critical", "system-cluster-critical", "true", "false"),
    )
)
"""Names that every cluster has or that schedulers know; hashing them would change decisions."""
_WORD_FIELDS: Final = frozenset(
    (
        *("kind", "apiVersion", "phase", "type", "status", "state", "operator", "effect", "restartPolicy", "protocol"),
        *("preemptionPolicy", "schedulerName", "whenUnsatisfiable", "nodeTaintsPolicy", "nodeAffinityPolicy"),
        *(
            "volumeBindingMode",
            "reclaimPolicy",
            "volumeMode",
            "accessModes",
            "mode",
            "tier",
            "dnsPolicy",
            "provisioner",
        ),
        *("imagePullPolicy", "action", "event", "allocationMode", "scope", "scopeName", "scopes", "driver", "qosClass"),
        *("creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastProbeTime", "lastHeartbeatTime"),
        *("startTime", "startedAt", "finishedAt", "resourceVersion", "topologyKey", "highestTierName", "tierName"),
    )
)
"""Fields whose texts are words of the API, instants or revisions, and are kept."""
_QUANTITY_FIELDS: Final = frozenset(
    (
        *("requests", "limits", "allocatable", "capacity", "overhead", "capability", "deserved", "resource", "hard"),
        *("used", "minResources", "sizeLimit", "allocated", "reserved", "guarantee", "maximumVolumeSize"),
    )
)
"""Fields that hold resources: their keys are names of resources, their values quantities."""
_KEYED_FIELDS: Final = frozenset(("labels", "annotations", "matchLabels", "nodeSelector"))
"""Fields whose keys are keys of labels or annotations."""
_PUBLIC: Final = re.compile(
    r"(?:[a-z0-9.-]+\.)?(?:kubernetes\.io|k8s\.io|volcano\.sh|strato\.dev|nvidia\.com|amd\.com|intel\.com|kubeflow\.org)/.+"
)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|(?:[0-9]+(?:\.[0-9]+)?(?:h|m|s|ms|us|ns))+")
_INDEX: Final = re.compile("[0-9]{1,9}")


class Anonymiser:
    """Hashes names, as the module says; a `strato.sim.recording.recorder.Hiding`.

    Args:
        key: The secret key; logs with equal keys have equal hashes. None takes a random key that is not stored.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = hashlib.sha256(key).digest() if key is not None else secrets.token_bytes(32)
        self._known: dict[str, str] = {name: name for name in _KNOWN}

    def text(self, text: str) -> str:
        """Return a hashed name; of one like ``job-task-3`` the index is kept, as it orders the pods of a job."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) > 1_000_000:
                self._known = {name: name for name in _KNOWN}
            digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_DIGEST_BYTES)
            above, _, index = text.rpartition("-")
            indexed = "-" in above[1:-1] and _INDEX.fullmatch(index)
            found = f"h{digest.hexdigest()}" + (f"-i-{index}" if indexed else "")
            self._known[text] = found
        return found

    def key(self, key: str) -> str:
        """Return a ``namespace/name`` with both parts hashed."""
        namespace, slash, name = key.partition("/")
        return f"{self.text(namespace)}/{self.text(name)}" if slash else self.text(key)

    def body(self, view: Object) -> bytes:
        """Return an object in msgpack with its names hashed."""
        return e.encode(self.value(msgspec.to_builtins(view)))

    def value(self, value: Any, field: str = "") -> Any:
        """Return a part of an object with its names hashed; ``field`` is the name of the field that holds it."""
        if isinstance(value, str):
            return self._string(value, field)
        if isinstance(value, list | tuple):
            return [self.value(part, field) for part in value]
        if isinstance(value, Mapping):
            return self._mapping(value, field)
        return value

    def _string(self, text: str, field: str) -> str:
        if field in _WORD_FIELDS or _NUMBER.fullmatch(text):
            return text if field != "topologyKey" else self._label_key(text)
        return self.text(text)

    def _mapping(self, value: Mapping[Any, Any], field: str) -> dict[Any, Any]:
        if field in _QUANTITY_FIELDS:
            return {self._resource(key): self._amount(part) for key, part in value.items()}
        if field in _KEYED_FIELDS:
            return {self._label_key(key): self._string(part, "") for key, part in value.items()}
        if "key" in value and isinstance(value["key"], str):  # it is a selector requirement, a taint or a toleration
            rest = {name: self.value(part, name) for name, part in value.items() if name != "key"}
            return {"key": self._label_key(value["key"]), **rest}
        return {self._field_name(name): self.value(part, str(name)) for name, part in value.items()}

    def _field_name(self, name: Any) -> Any:
        """Return the name of an API field unchanged; another key belongs to a user's map and is hashed."""
        return name if name in _field_names() else self.text(str(name))

    def _label_key(self, key: str) -> str:
        return key if _PUBLIC.fullmatch(key) else self.text(key)

    def _resource(self, name: str) -> str:
        for prefix in ("requests.", "limits."):
            if name.startswith(prefix):
                return prefix + self._resource(name.removeprefix(prefix))
        return name if "/" not in name or _PUBLIC.fullmatch(name) else self.text(name)

    def _amount(self, part: Any) -> Any:
        """Return a quantity unchanged; it may also be a map of quantities itself, as in the guarantee of a queue."""
        return self._mapping(part, "resource") if isinstance(part, Mapping) else part


@functools.cache
def _field_names() -> frozenset[str]:
    """Return the names of all fields of all kinds that the scheduler reads."""
    found: set[str] = set()
    seen: set[type] = set()
    waiting: list[inspect.Type] = [inspect.type_info(known.kind.view) for known in kinds.KINDS]
    while waiting:
        match waiting.pop():
            case inspect.StructType(cls=cls, fields=fields) if cls not in seen:
                seen.add(cls)
                found.update(field.encode_name for field in fields)
                waiting += [field.type for field in fields]
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                waiting.append(item)
            case inspect.DictType(value_type=item):
                waiting.append(item)
            case inspect.UnionType(types=types):
                waiting += types
            case _:
                pass
    return frozenset(found)
