"""Build an image from files of this machine: a folder, or a Python environment with all that it needs to run.

An image has one layer. Its entries have no owners and all the same time, so that equal files give equal digests.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from strato.errors import UsageError, one_line
from strato.node.images.archives import INDEX, LAYOUT, BlobFolder
from strato.node.images.documents import (
    OCI_CONFIG,
    OCI_LAYER,
    OCI_MANIFEST,
    Descriptor,
    ImageManifest,
    digest_of_bytes,
    machine_platform,
    manifest_body,
)
from strato.node.images.references import ImageReference

_SECONDS = 120.0
_LEVEL = 1
"""Level of compression: twice as fast as the default level, and the result a tenth larger."""
_LIBRARIES_AT_ONCE = 500
_LIBRARY = re.compile(r"(?<!\S)(/\S+)\s+\(0x[0-9a-f]+\)")
_ASK = """
import json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({"prefix": sys.prefix, "program": sys.executable, "real": os.path.realpath(sys.executable),
                  "libraries": [paths["stdlib"], paths["platstdlib"]]}))
"""
_NEEDED = ("/etc/ld.so.cache", "/etc/ssl/certs", "/etc/passwd", "/etc/group", "/usr/share/zoneinfo/UTC")
"""Files of the machine that a Python environment needs too: the linker's cache, TLS authorities, names of users."""
_SHELL = "/bin/sh"
"""The shell with which Python runs commands, and which users run in containers."""


_LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "config-", "__pycache__")
"""Entries of the standard library's folder to leave out: third-party packages, tests, files for building Python."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The content of an image to build."""

    files: Sequence[tuple[str, str]]
    """Pairs of path on this machine and path in the image; folders are added with their content. If a path in the image
    occurs twice, the first counts."""
    config: dict[str, Any] = field(default_factory=dict)
    """``Entrypoint``, ``Cmd``, ``Env``, … of its containers."""
    modified: int = 0
    """Modification time of all entries, in seconds since 1970."""


def build(recipe: Recipe, reference: ImageReference, directory: str) -> str:
    """Write an OCI image layout; return the digest of the image's manifest.

    Raises:
        UsageError: A file cannot be read.
    """
    blobs = BlobFolder(directory)
    os.makedirs(os.path.dirname(blobs.path("sha256:x")))
    try:
        layer, diff_id = _write_layer(recipe, blobs)
    except OSError as err:
        raise UsageError(f"image {reference.familiar} cannot be built: {one_line(err)}") from err
    config = {
        **machine_platform(),
        "config": recipe.config,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created_by": "strato image build"}],
    }
    manifest = ImageManifest(_put(blobs, json.dumps(config).encode(), OCI_CONFIG), (layer,))
    made = _put(blobs, manifest_body(manifest), OCI_MANIFEST).to_json()
    named = {"io.containerd.image.name": reference.familiar, "org.opencontainers.image.ref.name": reference.tag}
    index = {"schemaVersion": 2, "manifests": [{**made, "platform": machine_platform(), "annotations": named}]}
    Path(directory, INDEX).write_text(json.dumps(index))
    Path(directory, LAYOUT).write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(made["digest"])


def pack(directory: str, target: str) -> None:
    """Write a layout as one tar file, which ``strato image import``, ``docker load`` and ``skopeo`` take."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for source, name in _walk(directory, ""):
            if name:
                _add(archive, source, name, 0)


def _put(blobs: BlobFolder, data: bytes, media_type: str) -> Descriptor:
    digest = digest_of_bytes(data)
    Path(blobs.path(digest)).write_bytes(data)
    return Descriptor(digest, len(data), media_type)


class _Hashed:
    """A file whose content is hashed as it is written."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write."""
        self._hash.update(data)
        self.size += len(data)
        return self._target.write(data)

    def flush(self) -> None:
        """Write buffered data."""
        self._target.flush()

    @property
    def digest(self) -> str:
        """Digest of what was written."""
        return f"sha256:{self._hash.hexdigest()}"


def _write_layer(recipe: Recipe, blobs: BlobFolder) -> tuple[Descriptor, str]:
    path = blobs.path("sha256:layer")
    with open(path, "wb") as file:
        packed = _Hashed(file)
        with gzip.GzipFile("", "wb", _LEVEL, cast("IO[bytes]", packed), mtime=recipe.modified) as stream:
            content = _Hashed(cast("IO[bytes]", stream))
            with tarfile.open(fileobj=cast("IO[bytes]", content), mode="w|", format=tarfile.PAX_FORMAT) as archive:
                for source, name in _unique(recipe.files):
                    _add(archive, source, name, recipe.modified)
    os.rename(path, blobs.path(packed.digest))
    return Descriptor(packed.digest, packed.size, OCI_LAYER), content.digest


def _unique(files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield every file once, each after the directories it is in."""
    seen = {""}
    for source, target in files:
        for path, name in _walk(source, target.strip("/")):
            parts = name.split("/")
            above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
            for directory in above:
                if directory not in seen:
                    yield "", directory
            if name not in seen:
                yield path, name
            seen.update((*above, name))


def _walk(source: str, target: str) -> Iterator[tuple[str, str]]:
    yield source, target
    if os.path.isdir(source) and not os.path.islink(source):
        for name in sorted(os.listdir(source)):
            if name != "__pycache__":
                yield from _walk(os.path.join(source, name), f"{target}/{name}".lstrip("/"))


def _add(archive: tarfile.TarFile, source: str, name: str, modified: int) -> None:
    """Add a file; no source is a directory. Sockets, pipes and devices are refused."""
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.mode, entry.type = modified, 0o755, tarfile.DIRTYPE
    found = os.lstat(source) if source else None
    if found is not None:
        entry.mode = stat.S_IMODE(found.st_mode)
    if found is None or stat.S_ISDIR(found.st_mode):
        archive.addfile(entry)
    elif stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(source)
        archive.addfile(entry)
    elif stat.S_ISREG(found.st_mode):
        with open(source, "rb") as content:
            entry.type, entry.size = tarfile.REGTYPE, os.fstat(content.fileno()).st_size
            archive.addfile(entry, content)
    else:
        raise UsageError(f"{source} is no file, link or folder, and an image has no others")


def python_environment(directory: str) -> Recipe:
    """Return the recipe of a Python environment: the environment, its Python, and the shared libraries of both.

    All files keep their paths, because scripts of the environment have the path of its Python in their first lines.

    Raises:
        UsageError: There is no environment in the directory, or its Python does not run.
    """
    program = os.path.join(os.path.abspath(directory), "bin", "python")
    facts = json.loads(_output([program, "-I", "-c", _ASK], directory))
    real, prefix = facts["real"], facts["prefix"]
    modules = dict.fromkeys(
        os.path.join(library, name) for library in facts["libraries"] for name in os.listdir(library)
    )
    folders = [prefix, *(path for path in modules if not os.path.basename(path).startswith(_LEFT_OUT))]
    binaries = [path for folder in folders for path, _ in _walk(folder, "") if ".so" in os.path.basename(path)]
    programs = [program, real, _SHELL]
    single = [*programs, *_libraries([*programs[1:], *binaries], directory), *filter(os.path.exists, _NEEDED)]
    files = [*folders, *(name for path in single for name in _links(path))]
    path = f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    return Recipe([(file, file) for file in dict.fromkeys(files)], {"Env": [f"PATH={path}"], "Cmd": [program]})


def _libraries(binaries: Sequence[str], directory: str) -> list[str]:
    """Return the shared libraries of programs and libraries, and the loader."""
    found: dict[str, None] = {}
    for start in range(0, len(binaries), _LIBRARIES_AT_ONCE):
        part = binaries[start : start + _LIBRARIES_AT_ONCE]
        named = _LIBRARY.findall(_output(["ldd", *part], directory, may_fail=True))
        found |= dict.fromkeys(map(_direct, named))
    return list(found)


def _direct(path: str) -> str:
    """Return a path without the detours (``a/b/../c.so``) of a library that finds others beside itself."""
    direct = os.path.normpath(path)
    is_same = os.path.exists(direct) and os.path.samefile(direct, path)
    return direct if is_same else os.path.realpath(path)  # a folder on the way is a link


def _links(path: str) -> Iterator[str]:
    """Yield a path and, link by link, the paths that it leads to, as the links name them.

    These are not resolved further: ``/lib`` may be a link on this machine and is a directory in the image.
    """
    yield path
    while os.path.islink(path):
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        yield path


def _output(argv: list[str], directory: str, *, may_fail: bool = False) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=not may_fail)
    except (OSError, subprocess.SubprocessError) as err:
        raise UsageError(f"{directory} is no Python environment that runs: {one_line(err)}") from err
    return done.stdout
