"""Files of one volume of a pod that get in each other's way: one path for two, or a path below that of another file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strato.api.meta import Json
from strato.api.validation.addresses import quoted

_File = tuple[str, str]
"""A path, and what the file is from; empty if there is only one thing."""


def overlapping_paths(volumes: Sequence[Json]) -> Iterator[str]:
    """Yield the overlaps of every ConfigMap, Secret, downward and projected volume, as warnings."""
    for volume in volumes:
        if volume.keys().isdisjoint(_WITH_FILES):
            continue
        name = quoted(volume.get("name") or "")
        for member, title, key in _SOURCES:
            source = volume.get(member)
            if source is not None:
                what = f"{title} {quoted(source.get(key) or '')}" if key else title
                for overlap in _overlaps((item.get("path") or "", "") for item in source.get("items") or ()):
                    yield f"volume {name} ({what}): overlapping paths: {overlap}"
        if volume.get("projected") is not None:
            files: list[_File] = []
            for source in volume["projected"].get("sources") or ():
                if not source:
                    yield f"volume {name} (Projected) has no sources provided"
                files += _projected(source)
            for overlap in _overlaps(files):
                yield f"volume {name} (Projected): overlapping paths: {overlap}"


_WITH_FILES = frozenset(("configMap", "secret", "downwardAPI", "projected"))
_SOURCES = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", ""))
_CERTIFICATE = (
    ("certificateChainPath", "PodCertificate chain"),
    ("keyPath", "PodCertificate key"),
    ("credentialBundlePath", "PodCertificate credential bundle"),
)


def _projected(source: Json) -> list[_File]:
    for member, title in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if (source.get(member) or {}).get("items"):
            what = f"{title} {quoted(source[member].get('name') or '')}"
            return [(item.get("path") or "", what) for item in source[member]["items"]]
    if (source.get("downwardAPI") or {}).get("items"):
        return [(item.get("path") or "", "DownwardAPI") for item in source["downwardAPI"]["items"]]
    if source.get("serviceAccountToken") is not None:
        return [(source["serviceAccountToken"].get("path") or "", "ServiceAccountToken")]
    bundle = source.get("clusterTrustBundle")
    if bundle is not None:
        name = bundle["name"] if bundle.get("name") is not None else bundle.get("signerName") or ""
        return [(bundle.get("path") or "", f"ClusterTrustBundle {quoted(name)}")]
    certificate = source.get("podCertificate") or {}
    return [(certificate[member], what) for member, what in _CERTIFICATE if certificate.get(member)]


class _Folder:
    """The files at one path, in order, and the paths below it."""

    __slots__ = ("below", "files")

    def __init__(self) -> None:
        self.below: dict[str, _Folder] = {}
        self.files: list[tuple[int, _File]] = []


def _overlaps(files: Iterable[_File]) -> Iterator[str]:
    """Yield each pair of files of which one is at, or below, the other's path.

    The work grows with the length of the paths and the number of pairs, of which the caller may take only some.
    """
    root = _Folder()
    for number, (path, source) in enumerate(files):
        path = path.rstrip("/")
        if not path:
            continue
        folder, found = root, []
        for part in path.split("/"):
            folder = folder.below.setdefault(part, _Folder())
            found += folder.files
        waiting = list(folder.below.values())
        while waiting:
            one = waiting.pop()
            found += one.files
            waiting += one.below.values()
        for _, other in sorted(found):
            yield f"{_shown((path, source))} with {_shown(other)}"
        folder.files.append((number, (path, source)))


def _shown(file: _File) -> str:
    path, source = file
    return f"{quoted(path)} ({source})" if source else quoted(path)
