"""OCI image layouts, as ``skopeo copy … oci:DIR``, ``buildah push`` and ``docker save`` write them.

Every blob is held to the size and digest that name it.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from strato.node import beneath
from strato.node.layers import digest_of, unpack
from strato.node.rootwriter import BadImage, Budget

MARKER = "oci-layout"
_MAX_DOCUMENT_BYTES = 4 << 20
_MAX_LAYERS, _MAX_DEPTH = 512, 4
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

Json = dict[str, Any]


def is_layout(directory: str) -> bool:
    """Whether a directory is an OCI image layout and not a root file system."""
    names = (MARKER, "index.json", "blobs")
    return all(os.path.lexists(os.path.join(directory, name)) for name in names)


def unpack_layout(layout: str, directory: str, budget: Budget) -> None:
    """Unpack the layers of a layout's image for this machine.

    Raises:
        BadImage: Something of it is missing, is not what its digest says, or leads out of the image.
    """
    version = _parsed(beneath.read_regular(os.path.join(layout, MARKER), _MAX_DOCUMENT_BYTES), MARKER)
    if version.get("imageLayoutVersion") != "1.0.0":
        raise BadImage(f"{MARKER}: version {version.get('imageLayoutVersion')!r} is not 1.0.0")
    index = _parsed(beneath.read_regular(os.path.join(layout, "index.json"), _MAX_DOCUMENT_BYTES), "index.json")
    manifest = _manifest(layout, index, 0)
    layers = _list(manifest, "layers")
    if len(layers) > _MAX_LAYERS:
        raise BadImage(f"the image has {len(layers)} layers, more than {_MAX_LAYERS}")
    config = _document(layout, manifest.get("config"))
    rootfs = config.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list) or len(diff_ids) != len(layers):
        raise BadImage("the image's configuration does not tell the digests of its layers")
    for layer in layers:
        with _blob(layout, layer) as source:
            unpack(source, directory, budget, layer=True)


def _manifest(layout: str, index: Json, depth: int) -> Json:
    """Return the manifest of the image for this machine; an index may name other indexes."""
    if depth > _MAX_DEPTH:
        raise BadImage("index.json names indexes of indexes without end")
    found = [one for one in _list(index, "manifests") if _suits(one)]
    if len(found) != 1:
        raise BadImage(f"index.json names {len(found)} images for this machine; it must be one")
    document = _document(layout, found[0])
    return _manifest(layout, document, depth + 1) if "manifests" in document else document


def _suits(descriptor: Json) -> bool:
    wanted = descriptor.get("platform")
    if not isinstance(wanted, dict):
        return True
    machine = platform.machine()
    return wanted.get("os") == "linux" and wanted.get("architecture") == _ARCHITECTURES.get(machine, machine)


def _document(layout: str, descriptor: object) -> Json:
    with _blob(layout, descriptor) as source:
        return _parsed(source.read(_MAX_DOCUMENT_BYTES + 1), str(descriptor))


@contextmanager
def _blob(layout: str, descriptor: object) -> Iterator[BinaryIO]:
    """Open a blob that is what its descriptor says, by size and digest."""
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None or not isinstance(descriptor, dict):
        raise BadImage(f"{digest!r} is no sha256 digest of a blob")
    path = os.path.join(layout, "blobs", "sha256", match[1])
    try:
        descriptor_of_file = beneath.open_regular(path)
    except OSError as err:
        raise BadImage(f"blob {digest} is missing: {err.strerror}") from err
    with open(descriptor_of_file, "rb") as source:
        if os.fstat(source.fileno()).st_size != descriptor.get("size"):
            raise BadImage(f"blob {digest} has not the {descriptor.get('size')} bytes its descriptor says")
        if digest_of(source) != digest:
            raise BadImage(f"blob {digest} is damaged: its content has another digest")
        yield source


def _parsed(text: bytes, name: str) -> Json:
    try:
        if len(text) > _MAX_DOCUMENT_BYTES:
            raise BadImage(f"{name} is larger than {_MAX_DOCUMENT_BYTES} bytes")
        found = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise BadImage(f"{name} is not JSON") from err
    if not isinstance(found, dict):
        raise BadImage(f"{name} is no JSON object")
    return found


def _list(document: Json, member: str) -> list[Json]:
    found = document.get(member)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadImage(f"{member!r} is no list of descriptors")
    return found
