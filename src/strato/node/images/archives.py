"""Images in files: OCI layouts, as ``skopeo copy … oci:DIR`` and ``buildah push`` write them, and ``docker save``'s.

The size and digest of every blob are checked.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, Protocol

from strato.node import beneath
from strato.node.beneath import Scope
from strato.node.images.documents import (
    MAX_DOCUMENT_BYTES,
    MAX_INDEX_DEPTH,
    OCI_CONFIG,
    OCI_LAYER,
    Descriptor,
    ImageManifest,
    Json,
    manifest_of,
    parse,
    suiting,
)
from strato.node.images.layers import digest_of
from strato.node.images.rootwriter import BadImage

LAYOUT, INDEX = "oci-layout", "index.json"
_DOCKER = "manifest.json"


class ImageSource(Protocol):
    """A source of the parts of one image."""

    @abstractmethod
    def manifest(self) -> ImageManifest:
        """Return the image's manifest; BadImage when there is no usable one."""

    @abstractmethod
    def open(self, blob: Descriptor) -> AbstractContextManager[BinaryIO]:
        """Open a part; BadImage when its size or digest differs from the descriptor."""


def source_of(directory: str) -> ImageSource | None:
    """Return the source of an image layout or archive in a directory; None if it is a root file system or other."""
    there = [os.path.lexists(os.path.join(directory, name)) for name in (LAYOUT, INDEX, "blobs")]
    if all(there):
        return OciLayout(directory)
    if os.path.lexists(os.path.join(directory, _DOCKER)) and not os.path.lexists(os.path.join(directory, "bin")):
        return DockerArchive(directory)
    return None


class BlobFolder:
    """Blobs below a directory, each in a file named by its digest.

    Args:
        directory: With ``blobs/sha256`` in it.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def path(self, digest: str) -> str:
        """Return the path of a blob."""
        return os.path.join(self._directory, "blobs", *digest.split(":"))

    @contextmanager
    def open(self, blob: Descriptor) -> Iterator[BinaryIO]:
        """Open a blob.

        Raises:
            BadImage: It is missing, or its size or digest differs from the descriptor.
        """
        try:
            descriptor = beneath.open_regular(self.path(blob.digest))
        except OSError as err:
            raise BadImage(f"blob {blob.digest} is missing: {err.strerror}") from err
        with open(descriptor, "rb") as source:
            if os.fstat(source.fileno()).st_size != blob.size:
                raise BadImage(f"blob {blob.digest} has not the {blob.size} bytes its descriptor says")
            if digest_of(source) != blob.digest:
                raise BadImage(f"blob {blob.digest} is damaged: its content has another digest")
            yield source

    def document(self, blob: Descriptor) -> Json:
        """Read a blob that is JSON."""
        with self.open(blob) as source:
            return parse(source.read(MAX_DOCUMENT_BYTES + 1), f"blob {blob.digest}")


class OciLayout(BlobFolder):
    """An OCI image layout with one image for this machine."""

    def manifest(self) -> ImageManifest:
        """Find the image for this machine."""
        version = self._file(LAYOUT).get("imageLayoutVersion")
        if version != "1.0.0":
            raise BadImage(f"{LAYOUT}: version {version!r} is not 1.0.0")
        return self._manifest(self._file(INDEX), 0)

    def _file(self, name: str) -> Json:
        return parse(beneath.read_regular(os.path.join(self._directory, name), MAX_DOCUMENT_BYTES + 1), name)

    def _manifest(self, index: Json, depth: int) -> ImageManifest:
        if depth > MAX_INDEX_DEPTH:
            raise BadImage("index.json names indexes of indexes without end")
        found = suiting(index)
        if len(found) != 1 and not (depth and found):
            raise BadImage(f"index.json names {len(found)} images for this machine; it must be one")
        document = self.document(found[0])
        return self._manifest(document, depth + 1) if "manifests" in document else manifest_of(document)


class DockerArchive:
    """The output of ``docker save`` for one image: ``manifest.json``, a configuration, and layers."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._paths: dict[str, str] = {}

    def manifest(self) -> ImageManifest:
        """Compute the digests of the image's layers; the archive has only that of the configuration."""
        text = beneath.read_regular(os.path.join(self._directory, _DOCKER), MAX_DOCUMENT_BYTES)
        try:
            (found,) = json.loads(text)
            layers, config = list(found["Layers"]), str(found["Config"])
        except (ValueError, TypeError, KeyError, RecursionError) as err:
            raise BadImage(f"{_DOCKER} does not name the layers of one image; save one image at a time") from err
        return ImageManifest(self._part(config), tuple(self._part(str(layer)) for layer in layers))

    def _part(self, path: str) -> Descriptor:
        with self._opened(path) as source:
            packed = source.read(2) == b"\x1f\x8b"
            source.seek(0)
            kind = OCI_CONFIG if path.endswith(".json") else OCI_LAYER if packed else OCI_LAYER.removesuffix("+gzip")
            found = Descriptor(digest_of(source), os.fstat(source.fileno()).st_size, kind)
        self._paths[found.digest] = path
        return found

    @contextmanager
    def _opened(self, path: str) -> Iterator[BinaryIO]:
        """Open a file of the archive; older ones have links among the layers."""
        try:
            with beneath.opened(self._directory, os.O_PATH | os.O_DIRECTORY) as root:
                descriptor = beneath.open_at(root, path, os.O_PATH, scope=Scope.IN_ROOT)
            try:
                file = beneath.reopen_regular(descriptor, path)
            finally:
                os.close(descriptor)
        except OSError as err:
            raise BadImage(f"{path!r} of {_DOCKER} cannot be read: {err.strerror}") from err
        with open(file, "rb") as source:
            yield source

    @contextmanager
    def open(self, blob: Descriptor) -> Iterator[BinaryIO]:
        """Open a part."""
        with self._opened(self._paths[blob.digest]) as source:
            yield source
