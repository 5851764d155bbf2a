"""Kubernetes' own admission plug-ins that the embedded server needs: priority, service account, tolerations, limits."""

from __future__ import annotations

from dataclasses import dataclass

from strato.admission import runtimeclasses
from strato.admission.limitranges import default_pod
from strato.admission.request import AdmissionReader, AdmissionRequest, Json
from strato.api import catalog
from strato.api.claims import CLAIM_PROTECTION, VOLUME_PROTECTION, size_of
from strato.api.pods import MIRROR
from strato.api.status import forbidden

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes every cluster has, whether or not their objects are stored yet."""

TOLERATION_SECONDS = 300

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_VOLUME_PREFIX = "kube-api-access-"
_TOKEN_VOLUME_SUFFIX = "strat"
"""One name for all pods, so that equal specs stay equal; any volume with this prefix counts as the token volume."""
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def is_no_mirror(request: AdmissionRequest) -> bool:
    """Return whether a pod is not a mirror pod, which a kubelet creates for a static pod."""
    assert request.object is not None
    return MIRROR not in (request.object["metadata"].get("annotations") or ())


def _eviction_toleration(key: str) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """All plug-ins that touch a new pod, in the order of a real API server."""

    mount_tokens: bool = False

    def __call__(self, request: AdmissionRequest, reader: AdmissionReader) -> None:
        """Default one pod in place."""
        pod = request.object
        assert pod is not None
        spec = pod["spec"]
        default_pod(request, reader)
        self._service_account(request, spec, reader)
        _default_tolerations(spec)
        _set_priority(request, spec, reader)
        if spec.get("runtimeClassName") or spec.get("overhead"):
            runtimeclasses.apply(request, spec, reader)

    def _service_account(self, request: AdmissionRequest, spec: Json, reader: AdmissionReader) -> None:
        if not is_no_mirror(request):
            return  # a mirror pod refers to no API objects
        name = spec.get("serviceAccountName")
        if not name:
            name = "default"
            spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = reader.get(catalog.SERVICEACCOUNT, request.namespace, name) or {}
        if not account and name != "default":  # a controller creates the account default soon after its namespace
            raise forbidden(
                request.kind,
                request.name,
                f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found',
            )
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": one["name"]} for one in account["imagePullSecrets"] if one.get("name")]
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.get("automountServiceAccountToken")
        if self.mount_tokens and wanted is not False:
            _mount_token(spec)


def _mount_token(spec: Json) -> None:
    """Add the volume with token, CA and namespace, and mount it where nothing else is mounted."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    without = [
        container
        for container in containers
        if all(mount.get("mountPath") != _TOKEN_PATH for mount in container.get("volumeMounts") or ())
    ]
    if not without:
        return
    volumes = spec.get("volumes") or []
    name = next((one["name"] for one in volumes if one.get("name", "").startswith(_TOKEN_VOLUME_PREFIX)), None)
    if name is None:
        name = _TOKEN_VOLUME_PREFIX + _TOKEN_VOLUME_SUFFIX
        spec["volumes"] = [*volumes, {"name": name, "projected": {"sources": _token_sources(), "defaultMode": 420}}]
    for container in without:
        mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _token_sources() -> list[Json]:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]


def keep_tolerations(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Put back the tolerations of every pod when a change of a pod's list leaves them out, in place."""
    assert request.object is not None
    assert request.old_object is not None
    spec = request.object["spec"]
    if spec.get("tolerations") != request.old_object["spec"].get("tolerations"):
        spec["tolerations"] = list(spec.get("tolerations") or ())  # a copy, as a patched object shares unchanged parts
        _default_tolerations(spec)


def _default_tolerations(spec: Json) -> None:
    """Tolerate not-ready and unreachable nodes for five minutes, unless the pod says otherwise."""
    present = spec.get("tolerations")
    if not present:
        spec["tolerations"] = [_eviction_toleration(_NOT_READY), _eviction_toleration(_UNREACHABLE)]
        return
    not_ready = unreachable = False
    for toleration in present:
        if toleration.get("effect") in (None, "", "NoExecute"):
            key = toleration.get("key")
            not_ready = not_ready or key == _NOT_READY or not key
            unreachable = unreachable or key == _UNREACHABLE or not key
    if not not_ready:
        present.append(_eviction_toleration(_NOT_READY))
    if not unreachable:
        present.append(_eviction_toleration(_UNREACHABLE))


def _set_priority(request: AdmissionRequest, spec: Json, reader: AdmissionReader) -> None:
    """Resolve the priority class into a number and a preemption policy."""
    name = spec.get("priorityClassName")
    if not name:
        value, policy = 0, "PreemptLowerPriority"
        for candidate in reader.list(catalog.PRIORITYCLASS, ""):
            if candidate.get("globalDefault"):
                value = candidate.get("value", 0)
                policy = candidate.get("preemptionPolicy") or policy
                spec["priorityClassName"] = candidate["metadata"]["name"]
                break
    else:
        found = reader.get(catalog.PRIORITYCLASS, "", name)
        if found is not None:
            value, policy = found.get("value", 0), found.get("preemptionPolicy") or "PreemptLowerPriority"
        elif name in SYSTEM_PRIORITIES:
            value, policy = SYSTEM_PRIORITIES[name], "PreemptLowerPriority"
        else:
            raise forbidden(request.kind, request.name, f"no PriorityClass with name {name} was found")
    given = spec.get("priority")
    if given is not None and given != value:
        raise forbidden(
            request.kind,
            request.name,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        raise forbidden(
            request.kind,
            request.name,
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def one_default_priority_class(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse a second global default class."""
    new = request.object
    if new is None or not new.get("globalDefault"):
        return
    for other in reader.list(catalog.PRIORITYCLASS, ""):
        if other.get("globalDefault") and other["metadata"]["name"] != request.name:
            raise forbidden(
                request.kind,
                request.name,
                f"PriorityClass {other['metadata']['name']} is already marked as default. Only one default can exist",
            )


def protect_claim(request: AdmissionRequest, _reader: AdmissionReader) -> None:
    """Add the finalizer that keeps a claim while a pod uses it; the volume controller removes it."""
    _add_finalizer(request, CLAIM_PROTECTION)


def protect_volume(request: AdmissionRequest, _reader: AdmissionReader) -> None:
    """Add the finalizer that keeps a volume while it is bound; the volume controller removes it."""
    _add_finalizer(request, VOLUME_PROTECTION)


def _add_finalizer(request: AdmissionRequest, finalizer: str) -> None:
    assert request.object is not None
    metadata = request.object["metadata"]
    if finalizer not in (metadata.get("finalizers") or ()):
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]


def check_expansion(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Refuse to expand a claim unless its storage class allows that."""
    new, old = request.object, request.old_object
    if new is None or old is None or request.subresource:
        return
    before, after = (((one["spec"].get("resources") or {}).get("requests") or {}) for one in (old, new))
    if size_of(after) <= size_of(before):
        return
    name = old["spec"].get("storageClassName") or ""
    found = reader.get(catalog.STORAGECLASS, "", name) if name else None
    if found is None or not found.get("allowVolumeExpansion"):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
        raise forbidden(request.kind, request.name, why)


def default_storage_class(request: AdmissionRequest, reader: AdmissionReader) -> None:
    """Give a claim without a class the default one; the newest when several are marked."""
    claim = request.object
    assert claim is not None
    spec = claim["spec"]
    if spec.get("storageClassName") is not None:
        return
    marked = [
        candidate["metadata"]
        for candidate in reader.list(catalog.STORAGECLASS, "")
        if (candidate["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    ]
    if marked:
        newest = max(marked, key=lambda metadata: (metadata.get("creationTimestamp") or "", metadata["name"]))
        spec["storageClassName"] = newest["name"]
