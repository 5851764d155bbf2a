"""The local image store: names of images and the root file systems behind them.

There is no registry: an image is a directory, a tar archive or an OCI image layout that somebody imported.
``strato/host`` is always there: this machine's own root, read-only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from strato.errors import StateError, UsageError, one_line
from strato.node import beneath
from strato.node.layers import unpack
from strato.node.ocilayout import is_layout, unpack_layout
from strato.node.removal import remove_tree
from strato.node.rootwriter import MAX_BYTES, Attributes, BadImage, Budget, RootWriter

HOST_IMAGE = "strato/host"


class ImageProblem(UsageError):
    """An image cannot be imported, or not under that name."""


class NoImage(StateError):
    """There is no image of that name."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the store."""

    name: str
    root: str
    """Root file system; empty for the machine's own."""

    @property
    def is_host(self) -> bool:
        """Whether this is the machine's own root."""
        return not self.root


@dataclass(frozen=True, slots=True)
class Choice:
    """What a container runs on."""

    image: Image | None
    substituted: bool = False
    problem: str = ""
    """Why there is none, and what to do."""


def normal_name(name: str) -> str:
    """Return an image's name with its tag (``latest`` when it has none); digests stay."""
    if "@" in name or ":" in name.rpartition("/")[2]:
        return name
    return f"{name}:latest"


class ImageStore:
    """Images below ``data_dir/images``.

    Args:
        data_dir: The node's directory.
    """

    def __init__(self, data_dir: str | os.PathLike[str]) -> None:
        self._directory = Path(data_dir) / "images"

    def import_image(self, name: str, source: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Image:
        """Copy a directory, or unpack a tar archive or an OCI layout, in place of an older image of that name.

        Args:
            name: Of the image.
            source: Its root file system, or an OCI image layout; a directory or a tar archive of it.
            max_bytes: Larger images are refused.

        Raises:
            ImageProblem: The name is reserved, or the source cannot be read, leads out of the image or is too large.
        """
        if normal_name(name) == normal_name(HOST_IMAGE):
            raise ImageProblem(f"image {name!r} is this machine's own root and cannot be replaced; take another name")
        if not name or any(character.isspace() for character in name):
            raise ImageProblem(f"image name {name!r} is empty or has spaces; write for example tools:1")
        with self._alone():
            self._import(name, Path(source), max_bytes)
        return Image(normal_name(name), str(self._path(name) / "root"))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the store: one import at a time, so that what a killed one left half done belongs to nobody."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._directory.chmod(0o700)  # images have directories that anybody may write to
        with (self._directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self._directory.glob(".new-*"):
                remove_tree(str(left))
            yield

    def _import(self, name: str, path: Path, max_bytes: int) -> None:
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self._directory))
        try:
            if path.is_dir():
                self._copy(path, fresh, max_bytes)
            elif path.is_file():
                _unpack(path, fresh, max_bytes)
            else:
                raise ImageProblem(f"image {name!r}: {path} is neither a directory nor a tar archive")
            target = self._path(name)
            if target.exists():
                remove_tree(str(target))
            fresh.rename(target)
        except BadImage as err:
            raise ImageProblem(f"{path}: {err}") from err
        except OSError as err:
            raise ImageProblem(f"image {name!r}: cannot copy {path}: {one_line(err)}") from err
        finally:
            remove_tree(str(fresh))

    def _copy(self, source: Path, fresh: Path, max_bytes: int) -> None:
        if is_layout(str(source)):
            unpack_layout(str(source), str(fresh / "root"), Budget(max_bytes))
            return
        with RootWriter(str(fresh / "root"), Budget(max_bytes)) as writer:
            waiting = [""]
            while waiting:
                inner = waiting.pop()
                with os.scandir(source / inner) as entries:
                    for entry in entries:
                        if not self._is_own(entry):
                            waiting += _copy_entry(writer, entry, os.path.join(inner, entry.name))
            writer.close_directories()

    def _is_own(self, entry: os.DirEntry[str]) -> bool:
        """Whether this is the store itself, which would be copied into itself for ever."""
        return entry.name == self._directory.name and Path(entry.path).samefile(self._directory)

    def find(self, name: str) -> Image | None:
        """Return an image by name, None when it is not in the store."""
        if normal_name(name) == normal_name(HOST_IMAGE):
            return Image(HOST_IMAGE, "")
        root = self._path(name) / "root"
        return Image(normal_name(name), str(root)) if root.is_dir() else None

    def list(self) -> list[Image]:
        """Return all images by name, the machine's own first."""
        found = [Image(HOST_IMAGE, "")]
        if self._directory.is_dir():
            names = sorted(unquote(p.name) for p in self._directory.iterdir() if not p.name.startswith("."))
            found += [Image(name, str(self._path(name) / "root")) for name in names]
        return found

    def remove(self, name: str) -> None:
        """Remove an image; containers that run on it keep what they have open.

        Raises:
            NoImage: No such image.
            ImageProblem: It is the machine's own root.
        """
        if normal_name(name) == normal_name(HOST_IMAGE):
            raise ImageProblem(f"{HOST_IMAGE} is this machine's own root and cannot be removed")
        if self.find(name) is None:
            raise NoImage(f"image {name!r} is not in the store; `strato image list` shows what is")
        remove_tree(str(self._path(name)))

    def _path(self, name: str) -> Path:
        return self._directory / quote(normal_name(name), safe="")


def choose(store: ImageStore, name: str, command: str, env: Mapping[str, str], *, strict: bool) -> Choice:
    """Decide what a container runs on: its image, or the machine's root when that has its command.

    Args:
        store: Where images are looked up.
        name: The container's image.
        command: First word of the container's command line; empty when it has none.
        env: The environment the command is searched in (``PATH``).
        strict: Never substitute.
    """
    image = store.find(name)
    if image is not None:
        return Choice(image)
    advice = f"import it with `strato image import {name} DIR|TAR`"
    if strict:
        return Choice(None, problem=f"image {name!r} is not in the local store; {advice}")
    if not command:
        problem = f"image {name!r} is not in the local store and the container names no command; {advice} or add one"
        return Choice(None, problem=problem)
    if shutil.which(command, path=env.get("PATH", "")) is None:
        problem = f"image {name!r} is not in the local store and this machine has no {command!r}; {advice}"
        return Choice(None, problem=problem)
    return Choice(Image(HOST_IMAGE, ""), substituted=True)


def _copy_entry(writer: RootWriter, entry: os.DirEntry[str], name: str) -> list[str]:
    """Copy a directory's entry; return it when there may be more in it. Devices, pipes and sockets have no content."""
    found = entry.stat(follow_symlinks=False)
    attributes = Attributes(stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime)
    if stat.S_ISDIR(found.st_mode):
        writer.make_directory(name, attributes)
        return [name]
    if stat.S_ISLNK(found.st_mode):
        writer.make_link(name, os.readlink(entry.path), attributes)
    elif stat.S_ISREG(found.st_mode):
        with open(beneath.open_regular(entry.path), "rb") as source:
            writer.write_file(name, source, os.fstat(source.fileno()).st_size, attributes)
    return []


def _unpack(path: Path, fresh: Path, max_bytes: int) -> None:
    root, layout = fresh / "root", fresh / "layout"
    with path.open("rb") as source:
        unpack(source, str(root), Budget(max_bytes))
    if is_layout(str(root)):
        root.rename(layout)
        unpack_layout(str(layout), str(root), Budget(max_bytes))
        remove_tree(str(layout))
