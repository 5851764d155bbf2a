"""Defaults of pods and pod templates. On the hot path of every pod: plain dict code, no views."""

from __future__ import annotations

from strato.api.defaults.members import fill_empty
from strato.api.meta import Json
from strato.api.quantity import NANO, InvalidQuantity, canonical, parse
from strato.lru import memoised


def default_pod(pod: Json) -> None:
    """Default a pod: its spec, and requests from limits."""
    spec = pod.get("spec")
    if spec is None:
        spec = pod["spec"] = {}
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("schedulingGates") == []:  # the last gate has been removed
        del spec["schedulingGates"]
    for container in spec.get("containers") or ():
        _requests_from_limits(container)
    for container in spec.get("initContainers") or ():
        _requests_from_limits(container)
    if spec.get("hostNetwork"):
        for container in spec.get("containers") or ():
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)


def default_pod_template(obj: Json) -> None:
    """Default a PodTemplate."""
    template = obj.get("template")
    if template:
        default_template_spec(template)


def default_template_spec(template: Json) -> None:
    """Default the pod spec of a template (``{metadata, spec}``)."""
    template.setdefault("metadata", {})
    spec = template.get("spec")
    if spec is None:
        spec = template["spec"] = {}
    default_pod_spec(spec)


def default_pod_spec(spec: Json) -> None:
    """Default what pods and pod templates share."""
    get = spec.get
    if not get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if not get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if get("securityContext") is None:
        spec["securityContext"] = {}
    account = get("serviceAccountName") or get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in get("containers") or ():
        _default_container(container)
    for container in get("initContainers") or ():
        _default_container(container)
    for container in get("ephemeralContainers") or ():
        _default_container(container)
    for volume in get("volumes") or ():
        default_volume(volume)
    if get("overhead"):
        spec["overhead"] = canonical_list(spec["overhead"])
    resources = get("resources")
    if resources:
        canonical_resources(resources)


@memoised(2 << 20)
def pull_policy(image: str) -> str:
    """Return Always for the tag ``latest`` or none at all, IfNotPresent otherwise."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_container(container: Json) -> None:
    get = container.get
    if not get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(get("image") or "")
    if not get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        canonical_resources(resources)
    for port in get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in get("env") or ():
        source = variable.get("valueFrom")
        if source:
            field = source.get("fieldRef")
            if field is not None and not field.get("apiVersion"):
                field["apiVersion"] = "v1"
            resource = source.get("resourceFieldRef")
            if resource is not None and "divisor" not in resource:
                resource["divisor"] = "0"
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = get(name)
        if probe:
            _default_probe(probe)
    lifecycle = get("lifecycle")
    if lifecycle:
        for hook in lifecycle.values():
            if hook:
                _default_http_get(hook)


def _default_probe(probe: Json) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    _default_http_get(probe)
    call = probe.get("grpc")
    if call and call.get("service") is None:
        call["service"] = ""


def _default_http_get(handler: Json) -> None:
    request = handler.get("httpGet")
    if request:
        if not request.get("path"):
            request["path"] = "/"
        if not request.get("scheme"):
            request["scheme"] = "HTTP"


_SOURCE_DEFAULTS: dict[str, Json] = {
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
    "iscsi": {"iscsiInterface": "default"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False},
}


def default_source(volume: Json) -> None:
    """Default the source of a pod's volume, or of a PersistentVolume, that is a network's storage."""
    for source in _SOURCE_DEFAULTS.keys() & volume.keys():
        if volume[source] is not None:
            fill_empty(volume[source], _SOURCE_DEFAULTS[source])


def default_volume(volume: Json) -> None:
    """Default one volume; without a source it becomes an emptyDir."""
    if not volume or (len(volume) == 1 and "name" in volume):
        volume["emptyDir"] = {}
        return
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        body = volume.get(source)
        if body is not None and body.get("defaultMode") is None:
            body["defaultMode"] = 420
    projected = volume.get("projected")
    if projected:
        for projection in projected.get("sources") or ():
            token = projection.get("serviceAccountToken")
            if token is not None and token.get("expirationSeconds") is None:
                token["expirationSeconds"] = 3600
            downward = projection.get("downwardAPI")
            if downward:
                _default_downward(downward)
    downward = volume.get("downwardAPI")
    if downward:
        _default_downward(downward)
    host_path = volume.get("hostPath")
    if host_path is not None and host_path.get("type") is None:
        host_path["type"] = ""
    ephemeral = volume.get("ephemeral")
    if ephemeral:
        template = ephemeral.get("volumeClaimTemplate")
        if template and template.get("spec"):
            template.setdefault("metadata", {})
            template["spec"].setdefault("volumeMode", "Filesystem")
            canonical_resources(template["spec"].get("resources") or {})
    default_source(volume)


def _default_downward(body: Json) -> None:
    for item in body.get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"
        resource = item.get("resourceFieldRef")
        if resource is not None and "divisor" not in resource:
            resource["divisor"] = "0"


def _requests_from_limits(container: Json) -> None:
    resources = container["resources"]
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        for name, amount in limits.items():
            if name not in requests:
                requests[name] = amount


def canonical_resources(resources: Json) -> None:
    """Write the requests and limits canonically."""
    for section in ("requests", "limits"):
        amounts = resources.get(section)
        if amounts:
            resources[section] = canonical_list(amounts)


def canonical_list(amounts: Json) -> Json:
    """Write every quantity of a resource list canonically, no finer than thousandths.

    Invalid quantities are left unchanged, so that validation can report them.
    """
    return {name: _canonical_amount(amount) for name, amount in amounts.items()}


@memoised(8 << 20, typed=True)
def _canonical_amount(amount: str | float) -> str | int | float:
    try:
        quantity = parse(amount)
    except InvalidQuantity:
        return amount
    if quantity.nanos % 1_000_000 == 0:
        return canonical(amount)
    milli = quantity.milli_value
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def dict_qos_class(spec: Json) -> str:
    """Return Guaranteed, Burstable or BestEffort of a defaulted pod spec."""
    any_set, guaranteed = False, True
    whole = spec.get("resources") or {}
    members = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    for member in (spec,) if whole.get("requests") or whole.get("limits") else members:
        resources = member.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            wanted, capped = _nanos(requests.get(name)), _nanos(limits.get(name))
            if wanted or capped:
                any_set = True
            if not capped or wanted not in (0, capped):
                guaranteed = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _nanos(amount: str | float | None) -> int:
    if amount is None:
        return 0
    try:
        return parse(amount).nanos
    except InvalidQuantity:
        return NANO  # any value does, because validation will refuse the pod
