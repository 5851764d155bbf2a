"""The file system a container sees: its image, what every container has (/proc, /dev, /etc/hosts), its volumes.

An imported image gets an overlay, so that it can be written to; the machine's own root (image ``strato/host``) is
shown read-only, with a private /tmp. Where a mount point is missing in a read-only tree, the directories on the way
to it are rebuilt as a skeleton in memory whose entries point to the originals. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

from strato.node.sandbox import beneath, linux

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "kfd", "dri")
"""Of the machine's; NVIDIA's are given to containers one by one."""
_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx"))
PRIVATE_DIRECTORIES = ("/tmp", "/var/tmp", "/run")
"""Of a container on the machine's root; what the machine has there is not shown."""
_OWN = ("proc", "sys", "dev", "tmp", "run")


class RootBuilder:
    """Builds one container's root below ``root`` in the current mount namespace."""

    def __init__(self, base: str, root: str, scratch: str) -> None:
        self._base = base.rstrip("/")
        self._root = root
        self._scratch = scratch
        self._skeleton: set[str] | None = None
        """Directories of ours, relative paths; None when the root can be written to anyway."""
        self._is_complete = False
        """Whether the skeleton has all its mount points: behind those that are taken, pods' own files lie."""

    def build(self, spec: dict[str, Any]) -> None:
        """Assemble everything: base, system directories, then the mounts in order of their paths."""
        os.makedirs(self._root, exist_ok=True)
        if not (self._base and self._overlay()):
            linux.mount("strato", self._root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
            self._skeleton = {""}
            self._show_entries("")
        self._system(spec)
        mounts = sorted(spec["mounts"], key=lambda m: str(m["target"]))
        with contextlib.ExitStack() as sources:
            opened = [sources.enter_context(_source(entry)) for entry in mounts]
            if self._skeleton is not None:  # all mount points first: rebuilding a directory would hide a mount in it
                for entry, source in zip(mounts, opened, strict=True):
                    self._ensure(entry["target"], is_directory=_is_directory(source))
                self._ensure(spec["workingDir"], is_directory=True)
                self._is_complete = True
            for entry, source in zip(mounts, opened, strict=True):
                self._place(source, entry["target"], read_only=entry["readOnly"])
        self._ensure(spec["workingDir"], is_directory=True)
        if spec.get("readOnlyRoot") or self._skeleton is not None:
            flags = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY
            linux.mount("none", self._root, flags=flags)

    def place(self, source: str, target: str, *, read_only: bool) -> None:
        """Bind a file or directory at an absolute path of the container, making the mount point."""
        with beneath.opened(source) as descriptor:
            self._place(descriptor, target, read_only=read_only)

    def _place(self, source: int, target: str, *, read_only: bool) -> None:
        is_directory = _is_directory(source)
        point = self._mount_point(target, is_directory=is_directory)
        try:
            linux.bind_descriptor(source, point, self._staging(is_directory) if read_only else "")
        finally:
            os.close(point)

    def _staging(self, is_directory: bool) -> str:
        """Return a place of ours, out of every container's reach, where a mount is made read-only first."""
        path = os.path.join(self._scratch, "staging-directory" if is_directory else "staging-file")
        if is_directory:
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(self._scratch, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
        return path

    def _overlay(self) -> bool:
        upper, work = os.path.join(self._scratch, "upper"), os.path.join(self._scratch, "work")
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        options = f"lowerdir={self._base},upperdir={upper},workdir={work}"
        for extra in ("", ",userxattr"):
            try:
                linux.mount("overlay", self._root, "overlay", 0, options + extra)
            except OSError:
                continue
            return True
        return False

    def _system(self, spec: dict[str, Any]) -> None:
        for path in ("/proc", "/sys", "/dev"):
            if os.path.islink(self._root + path):
                raise OSError(f"the image's {path} is a link; it must be a directory")
        for path in ("/proc", "/sys", "/dev", "/etc"):
            self._ensure(path, is_directory=True)
        linux.bind("/sys", self._root + "/sys", read_only=True)
        self._devices(spec["devices"])
        if self._skeleton is not None:
            for path in PRIVATE_DIRECTORIES:
                source = os.path.join(self._scratch, path.strip("/").replace("/", "-"))
                os.makedirs(source, exist_ok=True)
                os.chmod(source, 0o1777 if "tmp" in path else 0o755)
                self.place(source, path, read_only=False)

    def _devices(self, granted: list[str]) -> None:
        dev = self._root + "/dev"
        # Without device files of its own: CUDA, as root, makes the ones it misses.
        linux.mount("strato-dev", dev, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
        present = [f"/dev/{name}" for name in os.listdir("/dev") if name in _DEVICES]
        for source in (*present, *granted):
            target = f"{dev}/{os.path.basename(source)}"
            if os.path.isdir(source):
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC))
            linux.bind(source, target)
        for name, target in _LINKS:
            os.symlink(target, f"{dev}/{name}")
        os.mkdir(dev + "/pts")
        linux.mount("devpts", dev + "/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, "newinstance,ptmxmode=0666")
        os.mkdir(dev + "/shm")
        linux.mount("shm", dev + "/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")

    def _show_entries(self, directory: str) -> None:
        """Fill a skeleton directory with the originals: links copied, all else bound read-only."""
        source = f"{self._base}/{directory}" if directory else self._base or "/"
        with os.scandir(source) as entries:
            for entry in entries:
                if not directory and entry.name in _OWN:
                    continue
                target = os.path.join(self._root, directory, entry.name)
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), target)
                elif entry.is_dir() or entry.is_file():
                    self._bind_original(entry, target)

    def _bind_original(self, entry: os.DirEntry[str], target: str) -> None:
        if entry.is_dir():
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC))
        with contextlib.suppress(OSError):  # what even its owner cannot see (a dead mount) stays an empty entry
            linux.bind(entry.path, target, read_only=True)

    def _ensure(self, target: str, *, is_directory: bool) -> None:
        os.close(self._mount_point(target, is_directory=is_directory))

    def _mount_point(self, target: str, *, is_directory: bool) -> int:
        """Open a mount point inside, following the container's links inside its root, made if missing.

        Volumes that are mounted already can be changed by other containers meanwhile, so it is a descriptor.
        """
        with beneath.opened(self._root, os.O_PATH | os.O_DIRECTORY) as root:
            if self._skeleton is not None and not self._is_complete:
                found, missing = beneath.locate(root, target)
                if missing:
                    self._materialise(found)
                    made = [*found, *missing]
                    self._skeleton.update("/".join(made[:depth]) for depth in range(len(found) + 1, len(made) + 1))
            return beneath.make_mount_point(root, target, is_directory=is_directory)

    def _materialise(self, parts: list[str]) -> None:
        """Replace read-only originals on the way by skeleton directories of ours."""
        assert self._skeleton is not None
        for depth in range(1, len(parts) + 1):
            relative = "/".join(parts[:depth])
            target = f"{self._root}/{relative}"
            if relative in self._skeleton or not _is_read_only(target):
                continue
            mode = stat.S_IMODE(os.stat(target).st_mode)
            linux.mount("strato", target, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode={mode:o}")
            self._skeleton.add(relative)
            self._show_entries(relative)


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _source(entry: dict[str, Any]) -> contextlib.AbstractContextManager[int]:
    """Open what a mount shows: a path the node chose, below it a path the pod chose."""
    if not entry.get("subPath"):
        return beneath.opened(entry["source"])
    return beneath.opened_below(entry["source"], entry["subPath"])


def _is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)
