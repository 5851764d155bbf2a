"""The JSON documents of an image: indexes, manifests and configurations, of OCI and of Docker. Pure.

Source: OCI image specification 1.1, Docker's image manifest version 2 schema 2.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from strato.api.meta import Json as Json
from strato.decoding import UNDECODABLE
from strato.node.images.references import DIGEST
from strato.node.images.rootwriter import BadImage

MAX_DOCUMENT_BYTES = 4 << 20
MAX_INDEX_DEPTH = 4
_MAX_LAYERS = 512
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPES = (
    OCI_MANIFEST,
    OCI_INDEX,
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
"""The media types that are requested from a registry."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The digest and size that identify a blob."""

    digest: str
    size: int
    media_type: str = ""

    @classmethod
    def of(cls, found: object) -> Self:
        """Read a descriptor.

        Raises:
            BadImage: The value is no descriptor.
        """
        body = found if isinstance(found, dict) else {}
        digest, size = body.get("digest"), body.get("size")
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise BadImage(f"{digest!r} is no sha256 digest of a blob")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise BadImage(f"blob {digest} has {size!r} bytes")
        return cls(digest, size, str(body.get("mediaType") or ""))

    def to_json(self) -> Json:
        """Return the descriptor as JSON for a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """The parts of an image for one platform."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    """Layers, the lowest first."""


class ImageConfig(msgspec.Struct, frozen=True):
    """An image's defaults for its containers, which a pod's spec may override."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    """Variables, each ``NAME=value``."""
    user: str = ""
    """``user[:group]``, names or numbers."""
    working_dir: str = ""
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The variables as a mapping."""
        return dict(line.split("=", 1) for line in self.env if "=" in line)


def parse(text: bytes, name: str) -> Json:
    """Decode a document.

    Raises:
        BadImage: The text is too large, or no JSON object.
    """
    if len(text) > MAX_DOCUMENT_BYTES:
        raise BadImage(f"{name} is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        found = msgspec.json.decode(text)
    except UNDECODABLE as err:
        raise BadImage(f"{name} is not JSON") from err
    if not isinstance(found, dict):
        raise BadImage(f"{name} is no JSON object")
    return found


def digest_of_bytes(data: bytes) -> str:
    """Return the digest of a document."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def suiting(index: Json) -> list[Descriptor]:
    """Return the entries of an index for this machine, the best first; they need not be images.

    Raises:
        BadImage: The document is no index.
    """
    return [Descriptor.of(one) for one in _objects(index, "manifests") if _suits(one)]


def _suits(descriptor: Json) -> bool:
    wanted = descriptor.get("platform")
    if not isinstance(wanted, dict):
        return True
    return machine_platform().items() <= wanted.items()


def machine_platform() -> dict[str, str]:
    """Return this machine's platform, in the form of indexes and configurations."""
    machine = platform.machine()
    return {"os": "linux", "architecture": _ARCHITECTURES.get(machine, machine)}


def manifest_of(document: Json) -> ImageManifest:
    """Read an image's manifest.

    Raises:
        BadImage: The document is no usable manifest; the message says why.
    """
    if document.get("schemaVersion", 2) != 2:
        raise BadImage(f"its manifest has schema {document['schemaVersion']!r}; only 2 is read: push the image anew")
    layers = _objects(document, "layers")
    if len(layers) > _MAX_LAYERS:
        raise BadImage(f"the image has {len(layers)} layers, more than {_MAX_LAYERS}")
    return ImageManifest(Descriptor.of(document.get("config")), tuple(Descriptor.of(layer) for layer in layers))


def manifest_body(manifest: ImageManifest) -> bytes:
    """Return an OCI manifest."""
    layers = [layer.to_json() for layer in manifest.layers]
    body = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": manifest.config.to_json(), "layers": layers}
    return json.dumps(body).encode()


def config_of(document: Json, layers: int) -> tuple[ImageConfig, list[str]]:
    """Read an image's configuration; return the defaults for containers, and the digests of the unpacked layers.

    Raises:
        BadImage: The document is no configuration, or has another number of layers.
    """
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    is_list = isinstance(diff_ids, list) and all(isinstance(one, str) and DIGEST.fullmatch(one) for one in diff_ids)
    if not is_list or not isinstance(diff_ids, list) or len(diff_ids) != layers:
        raise BadImage("the image's configuration does not tell the digests of its layers")
    body = document.get("config")
    if not isinstance(body, dict):
        body = {}
    labels, volumes = body.get("Labels") or {}, body.get("Volumes")
    config = ImageConfig(
        entrypoint=_texts(body, "Entrypoint"),
        command=_texts(body, "Cmd"),
        env=_texts(body, "Env"),
        user=_text(body, "User"),
        working_dir=_text(body, "WorkingDir"),
        volumes=_checked(sorted(volumes) if isinstance(volumes, dict) else volumes or (), "Volumes"),
        stop_signal=_text(body, "StopSignal"),
        labels={str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {},
    )
    return config, diff_ids


def chain_ids(diff_ids: Sequence[str]) -> list[str]:
    """Return for each layer the chain id of the layers up to it: images with equal first layers have equal ids."""
    chain: list[str] = []
    for diff_id in diff_ids:
        chain.append(digest_of_bytes(f"{chain[-1]} {diff_id}".encode()) if chain else diff_id)
    return chain


def _text(body: Json, member: str) -> str:
    return _checked([body.get(member) or ""], member)[0]


def _texts(body: Json, member: str) -> tuple[str, ...]:
    return _checked(body.get(member) or (), member)


def _checked(found: object, member: str) -> tuple[str, ...]:
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) and "\0" not in one for one in found):
        raise BadImage(f"the image's configuration has a {member!r} that is not of texts")
    return tuple(found)


def _objects(document: Json, member: str) -> list[Json]:
    found = document.get(member)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadImage(f"{member!r} is no list of descriptors")
    return found
