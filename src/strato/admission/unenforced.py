"""Warnings about objects and fields that the embedded cluster stores without effect, as no component acts on them.

On a real cluster some component does, so the API accepts them. The answer to a write warns its author (kubectl prints
``Warning: …``). `KINDS` and `FIELDS` are the whole list; a test compares every served kind and the fields of pods and
workloads with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from strato.admission.request import AdmissionReader, AdmissionRequest, Json
from strato.api import catalog
from strato.api.claims import LOCAL_PROVISIONER, NO_PROVISIONER
from strato.api.kinds import Kind

_MOST: Final = 12
"""Most warnings in one answer."""

KINDS: Final[Mapping[Kind, str]] = {
    catalog.NETWORKPOLICY: "nothing enforces it on this cluster: pods reach one another",
    catalog.INGRESS: "no ingress controller runs on this cluster; connect to the pods' addresses",
    catalog.INGRESSCLASS: "no ingress controller runs on this cluster",
    catalog.RESOURCECLAIMTEMPLATE: "no controller makes claims of it; create ResourceClaims",
    catalog.CSIDRIVER: "this machine's node runs no volume drivers; only the scheduler reads it",
    catalog.VOLUMEATTACHMENT: "nothing attaches volumes on this cluster",
    catalog.VOLUMEATTRIBUTESCLASS: "nothing changes volumes on this cluster",
    catalog.COLOCATIONCONFIGURATION: "there is no agent on the nodes that acts on it",
}
"""Kinds without any effect."""

Test = Callable[[Any], bool]


class Field(NamedTuple):
    """A field without effect."""

    says: str
    """Text of the warning: what the cluster does not do, and what to do instead."""
    when: Test = bool
    """Returns whether to warn about a value."""


Tree = dict[str, Any]
"""Fields by name, each a `Field`, the fields below it, or `Each` for a list."""


class Each(NamedTuple):
    """The tree for each object of a list."""

    tree: Tree


_SE_LINUX: Final = Field("SELinux labels are not set on this machine's node")
_CONTAINER: Final[Tree] = {
    "lifecycle": {"stopSignal": Field("containers are stopped with SIGTERM on this machine's node")},
    "restartPolicyRules": Field("containers restart by the pod's restartPolicy alone"),
    "securityContext": {"seLinuxOptions": _SE_LINUX},
    "volumeDevices": Field("block devices are not given to containers on this machine's node"),
    "volumeMounts": Each(
        {
            "mountPropagation": Field(
                "mounts are not propagated on this machine's node", lambda value: value != "None"
            ),
            "recursiveReadOnly": Field(
                "mounts below it stay as they are on this machine's node", lambda value: value == "Enabled"
            ),
        }
    ),
}
_VOLUMES: Final = """
awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk gitRepo glusterfs
image iscsi nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume
"""
"""Kinds of volumes that this machine's node cannot mount."""
_POD: Final[Tree] = {
    "containers": Each(_CONTAINER),
    "initContainers": Each(_CONTAINER),
    "hostnameOverride": Field("the host name is that of spec.hostname or the pod's name"),
    "os": {"name": Field("this machine runs Linux", lambda value: value != "linux")},
    "resourceClaims": Field("devices are allocated by the scheduler, and not put into containers on this machine"),
    "schedulingGroup": Field("pods are grouped by the annotation scheduling.k8s.io/group-name"),
    "securityContext": {"seLinuxOptions": _SE_LINUX},
    "setHostnameAsFQDN": Field("the host name has no domain on this machine's node"),
    "volumes": Each(
        dict.fromkeys(_VOLUMES.split(), Field("this machine's node cannot mount it, and does not start the pod"))
    ),
}
_TEMPLATE: Final[Tree] = {"spec": _POD}
_JOB: Final[Tree] = {"template": _TEMPLATE}
_VCJOB: Final[Tree] = {"tasks": Each({"template": _TEMPLATE})}

FIELDS: Final[Mapping[Kind, Tree]] = {
    catalog.POD: {"spec": _POD},
    catalog.PODTEMPLATE: {"template": _TEMPLATE},
    catalog.DEPLOYMENT: {"spec": {"template": _TEMPLATE}},
    catalog.REPLICASET: {"spec": {"template": _TEMPLATE}},
    catalog.REPLICATIONCONTROLLER: {"spec": {"template": _TEMPLATE}},
    catalog.STATEFULSET: {"spec": {"template": _TEMPLATE}},
    catalog.DAEMONSET: {"spec": {"template": _TEMPLATE}},
    catalog.JOB: {"spec": _JOB},
    catalog.CRONJOB: {"spec": {"jobTemplate": {"spec": _JOB}}},
    catalog.VCJOB: {"spec": _VCJOB},
    catalog.VCCRONJOB: {"spec": {"jobTemplate": {"spec": _VCJOB}}},
    catalog.JOBTEMPLATE: {"spec": _VCJOB},
    catalog.SERVICE: {
        "spec": {
            "externalIPs": Field("nothing listens at them; connect to the cluster IP or to a node port"),
            "type": Field(
                "no load balancer gives it an address; its node ports work", lambda value: value == "LoadBalancer"
            ),
        }
    },
    catalog.PERSISTENTVOLUMECLAIM: {
        "spec": {
            "dataSource": Field("nothing copies data into new volumes on this cluster"),
            "dataSourceRef": Field("nothing copies data into new volumes on this cluster"),
            "volumeAttributesClassName": Field("nothing changes volumes on this cluster"),
        }
    },
    catalog.STORAGECLASS: {
        "provisioner": Field(
            "volumes of this kind come only if you run what makes them; the class standard makes directories",
            lambda value: value not in (NO_PROVISIONER, LOCAL_PROVISIONER),
        )
    },
    catalog.SECRET: {
        "type": Field(
            "it gets no token; ask for one with kubectl create token",
            lambda value: value == "kubernetes.io/service-account-token",
        )
    },
    catalog.RUNTIMECLASS: {"handler": Field("containers run as all others do on this machine's node, whatever it is")},
    catalog.APISERVICE: {"spec": {"service": Field("requests are not passed on to other API servers")}},
}
"""Fields without effect, by kind."""


def warn(request: AdmissionRequest, _reader: AdmissionReader) -> None:
    """Add warnings about fields without effect; not for pods made from a template, whose own write was warned about."""
    if not request.subresource:
        request.warnings += warnings_about(request)


def says_nothing(request: AdmissionRequest) -> bool:
    """Whether warnings follow from a new object's spec alone, or a pod, where they depend on its owner, gets none."""
    return request.kind is not catalog.POD or not warnings_about(request)


def warnings_about(request: AdmissionRequest) -> list[str]:
    """Return the warnings about an object that is written."""
    kind, obj = request.kind, request.object
    assert obj is not None
    if kind is catalog.POD and obj["metadata"].get("ownerReferences"):
        return []
    if kind in KINDS:
        return [f"{kind.name}: stored, but {KINDS[kind]}"]
    fields: list[tuple[str, Field]] = []
    _look(FIELDS[kind], obj, "", fields)
    found = [f"{path}: stored, but {field.says}" for path, field in fields]
    return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more of these"]


def _look(tree: Tree, obj: Json, path: str, found: list[tuple[str, Field]]) -> None:
    """Collect the fields of a tree that an object has, at one look-up per field, as it runs for every new pod."""
    for key, value in obj.items():
        below = tree.get(key)
        if below is None or value is None:
            continue
        if below.__class__ is Field:
            if below.when(value):
                found.append((path + key, below))
        elif value.__class__ is dict:
            if below.__class__ is dict:
                _look(below, value, f"{path}{key}.", found)
        elif value.__class__ is list and below.__class__ is Each:
            for number, item in enumerate(value):
                if item.__class__ is dict:
                    _look(below.tree, item, f"{path}{key}[{number}].", found)
