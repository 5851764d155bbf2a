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

from strato.node.sandbox import linux

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

    def build(self, spec: dict[str, Any]) -> None:
        """Assemble everything: base, system directories, then the mounts in order of their paths."""
        os.makedirs(self._root, exist_ok=True)
        if not (self._base and self._overlay()):
            linux.mount("strato", self._root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
            self._skeleton = {""}
            self._show_entries("")
        self._system(spec)
        mounts = sorted(spec["mounts"], key=lambda m: str(m["target"]))
        if self._skeleton is not None:  # first all mount points: rebuilding a directory would hide a mount in it
            for entry in mounts:
                self._mount_point(entry["target"], is_directory=os.path.isdir(entry["source"]))
        for entry in mounts:
            self.place(entry["source"], entry["target"], read_only=entry["readOnly"])
        self._mount_point(spec["workingDir"], is_directory=True)
        if spec.get("readOnlyRoot") or self._skeleton is not None:
            flags = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY
            linux.mount("none", self._root, flags=flags)

    def place(self, source: str, target: str, *, read_only: bool) -> None:
        """Bind a file or directory at an absolute path of the container, making the mount point."""
        path = self._mount_point(target, is_directory=os.path.isdir(source))
        linux.bind(source, path, read_only=read_only)

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
        for path in ("/proc", "/sys", "/dev", "/etc"):
            self._mount_point(path, is_directory=True)
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

    def _mount_point(self, target: str, *, is_directory: bool) -> str:
        """Return the path outside of a mount point inside, following the container's links, made if missing."""
        parts: list[str] = []
        todo = [part for part in target.split("/") if part not in ("", ".")][::-1]
        hops = 0
        while todo:
            part = todo.pop()
            if part == "..":
                parts = parts[:-1]
                continue
            path = "/".join([self._root, *parts, part])
            if os.path.islink(path):
                hops += 1
                if hops > 40:
                    raise OSError(f"mount point {target}: too many links")
                link = os.readlink(path)
                parts = [] if link.startswith("/") else parts
                todo += [piece for piece in link.split("/") if piece not in ("", ".")][::-1]
                continue
            self._ensure(parts, part, is_directory=bool(todo) or is_directory)
            parts.append(part)
        return "/".join([self._root, *parts])

    def _ensure(self, parents: list[str], name: str, *, is_directory: bool) -> None:
        path = "/".join([self._root, *parents, name])
        if os.path.lexists(path):
            return
        if self._skeleton is not None:
            self._materialise(parents)
        if is_directory:
            os.mkdir(path, 0o755)
            if self._skeleton is not None:
                self._skeleton.add("/".join([*parents, name]))
        else:
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))

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
