"""The local image store: names of images and the root file systems behind them.

There is no registry: an image is a directory or a tar archive that somebody imported. ``strato/host`` is always
there: this machine's own root, read-only.
"""

from __future__ import annotations

import copy
import fcntl
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from strato.errors import UsageError, one_line

HOST_IMAGE = "strato/host"


class ImageProblem(UsageError):
    """An image cannot be imported, or is not there."""


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

    def import_image(self, name: str, source: str | os.PathLike[str]) -> Image:
        """Copy a directory or unpack a tar archive as an image, in place of an older one of that name.

        Raises:
            ImageProblem: The name is reserved, or the source is neither or cannot be read.
        """
        if normal_name(name) == normal_name(HOST_IMAGE):
            raise ImageProblem(f"image {name!r} is this machine's own root and cannot be replaced; take another name")
        if not name or any(character.isspace() for character in name):
            raise ImageProblem(f"image name {name!r} is empty or has spaces; write for example tools:1")
        with self._alone():
            self._bring(name, Path(source))
        return Image(normal_name(name), str(self._path(name) / "root"))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the store: one import at a time, so that what a killed one left half done belongs to nobody."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self._directory.glob(".new-*"):
                shutil.rmtree(left, ignore_errors=True)
            yield

    def _bring(self, name: str, path: Path) -> None:
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self._directory))
        try:
            if path.is_dir():
                shutil.copytree(path, fresh / "root", symlinks=True, ignore=self._left_out)
            elif path.is_file():
                _unpack(path, fresh / "root")
            else:
                raise ImageProblem(f"image {name!r}: {path} is neither a directory nor a tar archive")
            target = self._path(name)
            if target.exists():
                shutil.rmtree(target)
            fresh.rename(target)
        except OSError as err:
            raise ImageProblem(f"image {name!r}: cannot copy {path}: {err}") from err
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _left_out(self, directory: str, names: list[str]) -> list[str]:
        """Name what is not copied: what has no content, and this store, which would be copied into itself for ever."""
        here = Path(directory)
        own = [name for name in names if name == self._directory.name and (here / name).samefile(self._directory)]
        return own + _special_files(directory, names)

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
            ImageProblem: No such image, or the machine's own.
        """
        if normal_name(name) == normal_name(HOST_IMAGE):
            raise ImageProblem(f"{HOST_IMAGE} is this machine's own root and cannot be removed")
        if self.find(name) is None:
            raise ImageProblem(f"image {name!r} is not in the store; `strato image list` shows what is")
        shutil.rmtree(self._path(name))

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


def _special_files(directory: str, names: list[str]) -> list[str]:
    """Name what has no content: devices (every container has its own), pipes and sockets."""
    modes = ((name, os.lstat(os.path.join(directory, name)).st_mode) for name in names)
    return [name for name, mode in modes if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]


def _unpack(path: Path, target: Path) -> None:
    try:
        with tarfile.open(path) as archive:
            archive.extraction_filter = lambda member, _: member  # Debian 12's Python has no filters to name
            files = (member for member in archive if not (member.isdev() or member.isfifo()))
            archive.extractall(target, (_inside(member, target) for member in files))
    except (tarfile.TarError, EOFError) as err:
        raise ImageProblem(f"{path} is not a tar archive that can be read: {one_line(err)}") from err


def _inside(member: tarfile.TarInfo, target: Path) -> tarfile.TarInfo:
    """Return a member as it is to be written: below the target, without set-user-id and others' right to write.

    Raises:
        TarError: It leads out of the target, by its name or through a link that was written before it.
    """
    root = os.path.realpath(target)
    safe = copy.copy(member)
    safe.name = member.name.lstrip("/")
    safe.mode = member.mode & 0o755
    if os.path.commonpath([root, os.path.realpath(os.path.join(root, safe.name))]) != root:
        raise tarfile.TarError(f"{member.name!r} leads out of the image")
    return safe
