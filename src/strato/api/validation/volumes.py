"""Rules of a pod's volumes; most of them keep paths of files from leading out of their volume."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strato.api import names
from strato.api.meta import Json
from strato.api.quantity import InvalidQuantity, parse
from strato.api.status import duplicate, forbidden_field, invalid_value, not_supported, required
from strato.api.validation.downward import FILE_FIELDS, check_field
from strato.errors import Cause
from strato.lru import memoised

_SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""Kinds of volumes in the order in which an API server checks them; of several sources the first one counts."""
_ORDER = {source: place for place, source in enumerate(_SOURCES)}
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_encode = msgspec.json.Encoder().encode
_RESOURCES = (
    *("limits.cpu", "limits.ephemeral-storage", "limits.memory"),
    *("requests.cpu", "requests.ephemeral-storage", "requests.memory"),
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 1 << 32


def validate_volumes(volumes: list[Json], field: str, causes: list[Cause]) -> frozenset[str]:
    """Check a pod's volumes; return the names of the valid ones, which containers can mount."""
    found: set[str] = set()
    for index, volume in enumerate(volumes):
        place, before = f"{field}[{index}]", len(causes)
        validate_source(volume, place, _ORDER, causes)
        name = volume.get("name")
        if not name:
            causes.append(required(f"{place}.name"))
        elif not names.is_label(name):
            causes += [invalid_value(f"{place}.name", name, text) for text in names.check_label(name)]
        if name in found:
            causes.append(duplicate(f"{place}.name", name))
        if len(causes) == before:
            found.add(str(name))
    return frozenset(found)


def validate_source(volume: Json, field: str, order: Mapping[str, int], causes: list[Cause]) -> str:
    """Check the source of a volume, and return its kind."""
    sources = [source for source in volume if source in order and volume[source] is not None]
    if not sources:
        causes.append(required(field, "must specify a volume type"))
        return ""
    if len(sources) > 1:
        sources.sort(key=order.__getitem__)
    check = _CHECKS.get(sources[0])
    if check is not None:
        check(volume[sources[0]], f"{field}.{sources[0]}", causes)
    if len(sources) > 1:
        text = "may not specify more than 1 volume type"
        causes += [forbidden_field(f"{field}.{source}", text) for source in sources[1:]]
    return sources[0]


# Paths


def _check_no_backsteps(path: str, field: str, causes: list[Cause]) -> None:
    if ".." in path and ".." in path.split("/"):
        causes.append(invalid_value(field, path, "must not contain '..'"))


def check_descending(path: str, field: str, causes: list[Cause]) -> None:
    """Check a relative path that must not lead up (``..``)."""
    if path.startswith("/"):
        causes.append(invalid_value(field, path, "must be a relative path"))
    _check_no_backsteps(path, field, causes)


def _check_file_path(path: str, field: str, causes: list[Cause]) -> None:
    """Check the path of a file in a volume; names that begin with two dots are reserved for the kubelet."""
    check_descending(path, field, causes)
    if path.startswith("..") and not path.startswith("../"):
        causes.append(invalid_value(field, path, "must not start with '..'"))


def _check_mode(body: Json, member: str, field: str, causes: list[Cause]) -> None:
    mode = body.get(member)
    if mode is not None and not 0 <= mode <= 0o777:
        causes.append(invalid_value(f"{field}.{member}", mode, _MODE_TEXT))


# Kinds of volumes


def _check_empty_dir(body: Json, field: str, causes: list[Cause]) -> None:
    limit = body.get("sizeLimit")
    if limit is None:
        return
    try:
        if parse(limit).nanos >= 0:
            return
    except InvalidQuantity as err:
        causes.append(invalid_value(f"{field}.sizeLimit", limit, str(err)))
        return
    causes.append(forbidden_field(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _check_host_path(body: Json, field: str, causes: list[Cause]) -> None:
    path = body.get("path")
    if not path:
        causes.append(required(f"{field}.path"))
        return
    _check_no_backsteps(path, f"{field}.path", causes)
    kind = body.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))


def _check_local(body: Json, field: str, causes: list[Cause]) -> None:
    if not body.get("path"):
        causes.append(required(f"{field}.path"))
        return
    _check_no_backsteps(body["path"], f"{field}.path", causes)


def _check_nfs(body: Json, field: str, causes: list[Cause]) -> None:
    path = body.get("path") or ""
    causes += [required(f"{field}.{member}") for member in ("server", "path") if not body.get(member)]
    if not path.startswith("/"):
        causes.append(invalid_value(f"{field}.path", path, "must be an absolute path"))


def _check_git(body: Json, field: str, causes: list[Cause]) -> None:
    if not body.get("repository"):
        causes.append(required(f"{field}.repository"))
    check_descending(body.get("directory") or "", f"{field}.directory", causes)


def _check_claim(body: Json, field: str, causes: list[Cause]) -> None:
    if not body.get("claimName"):
        causes.append(required(f"{field}.claimName"))


def _check_config_map(body: Json, field: str, causes: list[Cause]) -> None:
    if not body.get("name"):
        causes.append(required(f"{field}.name"))
    _check_mode(body, "defaultMode", field, causes)
    _check_items(body, field, causes)


def _check_secret(body: Json, field: str, causes: list[Cause]) -> None:
    if not body.get("secretName"):
        causes.append(required(f"{field}.secretName"))
    _check_mode(body, "defaultMode", field, causes)
    _check_items(body, field, causes)


def _check_items(body: Json, field: str, causes: list[Cause]) -> None:
    for index, item in enumerate(body.get("items") or ()):
        _check_item(item, f"{field}.items[{index}]", causes)


def _check_item(item: Json, field: str, causes: list[Cause]) -> None:
    path = item.get("path") or ""
    if not item.get("key"):
        causes.append(required(f"{field}.key"))
    if not path:
        causes.append(required(f"{field}.path"))
    _check_file_path(path, f"{field}.path", causes)
    _check_mode(item, "mode", field, causes)


def _check_downward(body: Json, field: str, causes: list[Cause]) -> None:
    _check_mode(body, "defaultMode", field, causes)
    for item in body.get("items") or ():
        _check_downward_file(item, field, causes)


def _check_downward_file(item: Json, field: str, causes: list[Cause]) -> None:
    """Check one file; causes name the volume instead of the item, as on an API server."""
    path = item.get("path") or ""
    if not path:
        causes.append(required(f"{field}.path"))
    _check_file_path(path, f"{field}.path", causes)
    if item.get("fieldRef") is not None:
        check_field(item["fieldRef"], FILE_FIELDS, f"{field}.fieldRef", causes)
        if item.get("resourceFieldRef") is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            causes.append(invalid_value(field, "resource", text))
    elif item.get("resourceFieldRef") is not None:
        _check_resource(item["resourceFieldRef"], f"{field}.resourceFieldRef", causes)
    else:
        causes.append(required(field, "one of fieldRef and resourceFieldRef is required"))
    _check_mode(item, "mode", field, causes)


def _check_resource(reference: Json, field: str, causes: list[Cause]) -> None:
    resource = reference.get("resource") or ""
    if not reference.get("containerName"):
        causes.append(required(f"{field}.containerName"))
    elif not resource:
        causes.append(required(f"{field}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        causes.append(not_supported(f"{field}.resource", resource, _RESOURCES))


@memoised(1 << 20, longest=4096)
def _is_fine(text: str) -> bool:
    causes: list[Cause] = []
    _look_at_projected(msgspec.json.decode(text), "", causes)
    return not causes


def _check_projected(body: Json, field: str, causes: list[Cause]) -> None:
    """Check a projected volume; the check is cached, because every pod has the same one for its token."""
    if not _is_fine(_encode(body).decode()):
        _look_at_projected(body, field, causes)


def _look_at_projected(body: Json, field: str, causes: list[Cause]) -> None:
    _check_mode(body, "defaultMode", field, causes)
    taken: set[str] = set()

    def take(path: str, shown: str) -> None:
        if path and path in taken:
            causes.append(invalid_value(field, shown, "conflicting duplicate paths"))
        taken.add(path)

    for index, source in enumerate(body.get("sources") or ()):
        place = f"{field}.sources[{index}]"
        given = [member for member in _PROJECTED if source.get(member) is not None]
        for member in given:
            part, where = source[member], f"{place}.{member}"
            if member in ("secret", "configMap"):
                name = part.get("name") or ""
                if not name:
                    causes.append(required(f"{where}.name"))
                for at, item in enumerate(part.get("items") or ()):
                    _check_item(item, f"{where}.items[{at}]", causes)
                    take(item.get("path") or "", name)
            elif member == "downwardAPI":
                for item in part.get("items") or ():
                    _check_downward_file(item, where, causes)
                    take(item.get("path") or "", item.get("path") or "")
            elif member == "serviceAccountToken":
                _check_token(part, where, field, causes)
            else:
                for path in _paths_of(part, member, where, causes):
                    take(path, path)
        if len(given) > 1:
            causes.append(forbidden_field(place, "may not specify more than 1 volume type per source"))


_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")


def _check_token(token: Json, field: str, volume: str, causes: list[Cause]) -> None:
    """Check a token's lifetime and file; causes about the file name the volume, as on an API server."""
    seconds, path = token.get("expirationSeconds") or 0, token.get("path") or ""
    if seconds < _MIN_TOKEN_SECONDS:
        text = "may not specify a duration less than 10 minutes"
        causes.append(invalid_value(f"{field}.expirationSeconds", seconds, text))
    if seconds > _MAX_TOKEN_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
        causes.append(invalid_value(f"{field}.expirationSeconds", seconds, text))
    if not path:
        causes.append(required(f"{volume}.path"))
    else:
        _check_file_path(path, f"{volume}.path", causes)


def _paths_of(part: Json, member: str, field: str, causes: list[Cause]) -> list[str]:
    """Check the files of a trust bundle or certificate, and return them."""
    if member == "clusterTrustBundle":
        path = part.get("path") or ""
        if not path:
            causes.append(required(f"{field}.path"))
        _check_file_path(path, f"{field}.path", causes)
        return [path]
    given = [name for name in ("credentialBundlePath", "keyPath", "certificateChainPath") if part.get(name)]
    if not given:
        text = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        causes.append(required(field, text))
    for name in given:
        _check_file_path(part[name], f"{field}.{name}", causes)
    return [part[name] for name in given]


def _check_csi(body: Json, field: str, causes: list[Cause]) -> None:
    if not body.get("driver"):
        causes.append(required(f"{field}.driver"))


_CHECKS = {
    "emptyDir": _check_empty_dir,
    "hostPath": _check_host_path,
    "local": _check_local,
    "nfs": _check_nfs,
    "gitRepo": _check_git,
    "persistentVolumeClaim": _check_claim,
    "configMap": _check_config_map,
    "secret": _check_secret,
    "downwardAPI": _check_downward,
    "projected": _check_projected,
    "csi": _check_csi,
}
