"""Build a container's root file system: its image, what every container has (/proc, /dev, /etc/hosts), its volumes.

An image gets an overlay, so that containers can write; the machine's own root (image ``strato/host``) is shown
read-only, with a private /tmp. If a mount point is missing in a read-only tree, its parent directories are replaced by
a skeleton: directories in memory into which the entries of the original ones are bound. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

from strato.errors import one_line
from strato.node import beneath
from strato.node.sandbox import linux

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""The devices of the machine that every container has; others are given to single containers."""
_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("ptmx", "pts/ptmx"))
_OWN_DEVICES = {"fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm", "mqueue"}
PRIVATE_DIRECTORIES = ("/tmp", "/var/tmp", "/run", "/root", "/home")
"""Directories that are private to a container on the machine's root; the machine's own content is hidden."""
_OWN = ("proc", "sys", "dev", "tmp", "run", "root", "home", "boot", "lost+found")
"""Directories of the machine's root that are not shown."""
_SECRETS = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/var/log",
    "/var/lib/kubelet",
    "/var/spool",
)
"""Paths to cover if owners cannot be unmapped (see `RootBuilder`)."""
_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
"""Paths that are covered in all but privileged containers, as by container runtimes."""
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_MACHINES_SYS = ("/sys/fs/bpf", "/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing")
"""File systems below /sys that a bind of the machine's /sys includes, if a container shares the machine's network."""
_CGROUPS = "/sys/fs/cgroup"


class RootBuilder:
    """Builds one container's root below ``root`` in the current mount namespace.

    Args:
        base: Root of the image; empty for this machine's own root.
        root: Directory in which the root is built.
        scratch: The node's directory for what the container writes.
        unmapped: Descriptor of a user namespace that maps no owner of the machine's files. They are mounted through it,
            so that root in the container has only the rights of others: files that only their owner may read, such as
            keys and password files, stay unreadable, even those that are made or replaced later.
        user_namespace: Descriptor of the pod's own user namespace, to whose ids the owners in volumes are mapped.
        owner: The user and group outside that are root in that namespace; directories made here belong to them.
    """

    def __init__(
        self,
        base: str,
        root: str,
        scratch: str,
        *,
        unmapped: int | None = None,
        user_namespace: int | None = None,
        owner: int = 0,
    ) -> None:
        self._unmapped = unmapped
        self._shows_owners = False
        """Whether a part of the machine's root is shown with its real owners."""
        self._user_namespace = user_namespace
        self._base = base.rstrip("/")
        self._root = root
        self._scratch = scratch
        self._skeleton: set[str] | None = None
        """Directories of the skeleton, as relative paths; None when the root is writable and needs none."""
        self._privileged = self._shares_ipc = False
        self._owner = owner
        self._is_complete = False
        """Whether the skeleton has all mount points. After that the root has mounts with the pod's own files."""

    def build(self, spec: dict[str, Any]) -> None:
        """Assemble everything: base, system directories, then the mounts in order of their paths."""
        os.makedirs(self._root, exist_ok=True)
        self._privileged = bool(spec["privileged"])
        self._shares_ipc = bool(spec["hostIPC"])
        has_overlay = bool(self._base) and self._overlay()
        if self._owner:
            linux.make_files_for(self._owner, linux.held_capabilities())
        if not has_overlay:
            linux.mount("strato", self._root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
            self._skeleton = {""}
            self._show_entries("")
        self._system(spec)
        mounts = sorted(spec["mounts"], key=lambda m: str(m["target"]))
        with contextlib.ExitStack() as sources:
            opened = [sources.enter_context(_source(entry)) for entry in mounts]
            # make all mount points before the first mount: replacing a directory later would hide a mount below it
            if self._skeleton is not None:
                for entry, source in zip(mounts, opened, strict=True):
                    self._ensure(entry["target"], is_directory=_is_directory(source))
                self._ensure(spec["workingDir"], is_directory=True)
                hidden = self._hide(spec["hide"])
                self._is_complete = True
            else:
                hidden = []
            for entry, source in zip(mounts, opened, strict=True):
                self._place(source, entry["target"], read_only=entry["readOnly"], required=not entry["programs"])
        self._ensure(spec["workingDir"], is_directory=True)
        still = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY
        for path in hidden:
            linux.mount("none", path, flags=still | linux.MS_NOSUID | linux.MS_NODEV)
        self._mount_proc(spec)
        if spec["readOnlyRoot"] and self._skeleton is not None:
            for path in PRIVATE_DIRECTORIES:
                self._close(path)
        if spec["readOnlyRoot"] or self._skeleton is not None:
            linux.mount("none", self._root, flags=still | (0 if self._privileged else linux.MS_NODEV))

    def _close(self, path: str) -> None:
        """Make a private directory read-only, but not the mounts in it."""
        with beneath.opened(self._root, os.O_PATH | os.O_DIRECTORY) as root:
            descriptor = beneath.open_at(root, path, scope=beneath.Scope.IN_ROOT)
        try:
            flags = linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | linux.MS_NODEV
            linux.mount("none", f"/proc/self/fd/{descriptor}", flags=flags)
        finally:
            os.close(descriptor)

    def _hide(self, paths: list[str]) -> list[str]:
        """Cover directories of the machine with empty writable ones, in which mount points can be made."""
        found = list(paths)
        if self._shows_owners:
            found += [*_SECRETS, *_host_keys()]
        hidden: list[str] = []
        for path in found:
            target = self._root + path
            try:
                mode = os.lstat(target).st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                linux.bind(self._empty(f"hidden-{len(hidden)}"), target, recursive=False)
                assert self._skeleton is not None
                self._skeleton.add(path.strip("/"))
                hidden.append(target)
            elif not stat.S_ISLNK(mode):
                linux.bind("/dev/null", target, read_only=True)
        return hidden

    def _mount_proc(self, spec: dict[str, Any]) -> None:
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("proc", self._root + "/proc", "proc", flags)
        if not spec["maskedPaths"]:
            return
        for path in _READ_ONLY:
            target = self._root + path
            if os.path.exists(target):
                linux.bind(target, target, read_only=True)
        for path in _MASKED:
            self._mask(path)

    def _mask(self, path: str) -> None:
        target = self._root + path
        if os.path.isdir(target):
            linux.mount(
                "masked", target, "tmpfs", linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=0"
            )
        elif os.path.exists(target):
            linux.bind("/dev/null", target, read_only=True)

    def _place(self, source: int, target: str, *, read_only: bool, mapped: bool = True, required: bool = True) -> None:
        """Bind an open file or directory at an absolute path of the container, making the mount point.

        Args:
            source: Descriptor of the file or directory to show.
            target: Path in the container.
            read_only: Whether the mount is read-only.
            mapped: Whether its owners are mapped to the pod's ids.
            required: Whether it is an error if the file system cannot map owners; else they are shown as nobody.
        """
        user_namespace = self._user_namespace if mapped else None
        is_directory = _is_directory(source)
        point = self._mount_point(target, is_directory=is_directory)
        attributes = linux.MOUNT_ATTR_RDONLY if read_only else 0
        if not self._privileged:
            attributes |= linux.MOUNT_ATTR_NODEV

        def bind(owners: int | None) -> None:
            linux.bind_descriptor(source, point, attributes, lambda: self._staging(is_directory), owners)

        try:
            bind(user_namespace)
        except OSError as err:
            if user_namespace is None:
                raise
            if required:
                raise OSError(
                    err.errno, f"{target} cannot be shown in the ids of the pod's user namespace: {one_line(err)}"
                ) from err
            bind(None)
        finally:
            os.close(point)

    def _staging(self, is_directory: bool) -> str:
        """Make a file or directory that no container reaches, where a mount is made read-only before it is moved."""
        path = os.path.join(self._scratch, "staging-directory" if is_directory else "staging-file")
        if is_directory:
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(self._scratch, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
        return path

    def _overlay(self) -> bool:
        upper, work = os.path.join(self._scratch, "upper"), os.path.join(self._scratch, "work")
        base = self._base
        for path in (upper, work):
            os.makedirs(path, exist_ok=True)
            os.chown(path, self._owner or -1, self._owner or -1)
        if self._user_namespace is not None:
            base = os.path.join(self._scratch, "base")
            os.makedirs(base, exist_ok=True)
            linux.bind_mapped(self._base, base, self._user_namespace, linux.MOUNT_ATTR_RDONLY)
        options = f"lowerdir={base},upperdir={upper},workdir={work}"
        flags = 0 if self._privileged else linux.MS_NODEV
        for extra in ("", ",userxattr"):
            try:
                linux.mount("overlay", self._root, "overlay", flags, options + extra)
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
        self._sys(spec)
        self._devices(spec["devices"])
        if self._skeleton is not None:
            for path in PRIVATE_DIRECTORIES:
                source = os.path.join(self._scratch, path.strip("/").replace("/", "-"))
                os.makedirs(source, exist_ok=True)
                os.chmod(source, 0o1777 if "tmp" in path else 0o755)
                if path.count("/") == 1:  # in the skeleton, where nothing can be a link
                    target = self._root + path
                    os.mkdir(target)
                    linux.bind(source, target, recursive=False)
                    linux.set_mount_attributes(target, 0 if self._privileged else linux.MOUNT_ATTR_NODEV)
                    self._skeleton.add(path[1:])
                    continue
                with beneath.opened(source) as descriptor:
                    self._place(descriptor, path, read_only=False, mapped=False)

    def _empty(self, name: str) -> str:
        """Return an empty directory to bind; that costs less than mounting a new file system."""
        path = os.path.join(self._scratch, name)
        os.makedirs(path, exist_ok=True)
        return path

    def _sys(self, spec: dict[str, Any]) -> None:
        """Mount /sys read-only, with the container's own control groups only."""
        sys = self._root + "/sys"
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        if spec["isolation"] == "root":
            linux.mount("sysfs", sys, "sysfs", flags | (0 if self._privileged else linux.MS_RDONLY))
        else:  # the kernel allows a new sysfs only to the owner of the network namespace
            linux.bind("/sys", sys, read_only=True)
            for path in _MACHINES_SYS:
                self._mask(path)
        groups = self._root + _CGROUPS
        if not os.path.isdir(groups):
            return
        linux.bind(self._empty("cgroup"), groups, recursive=False)
        for path in spec["cgroups"]:
            group = os.path.dirname(path)
            hierarchy = os.path.relpath(path, _CGROUPS).split("/")[0]
            if os.path.exists(os.path.join(_CGROUPS, "cgroup.controllers")):
                linux.bind(group, groups, read_only=not self._privileged)
            elif not hierarchy.startswith("."):
                os.mkdir(f"{groups}/{hierarchy}")
                linux.bind(group, f"{groups}/{hierarchy}", read_only=not self._privileged)
        linux.mount("none", groups, flags=linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | flags)

    def _devices(self, granted: list[str]) -> None:
        dev = self._root + "/dev"
        # MS_NODEV: as root, CUDA would make device files of GPUs that the container must not have.
        linux.mount("strato-dev", dev, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
        wanted = set(os.listdir("/dev")) - _OWN_DEVICES if self._privileged else _DEVICES
        present = [f"/dev/{name}" for name in os.listdir("/dev") if name in wanted]
        for source in dict.fromkeys((*present, *granted)):
            target = f"{dev}/{os.path.basename(source)}"
            if os.path.islink(source) or not os.path.exists(source):
                continue
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
        if self._shares_ipc:
            linux.bind("/dev/shm", dev + "/shm")
        else:
            linux.mount("shm", dev + "/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, "mode=1777")
        os.mkdir(dev + "/mqueue")
        with contextlib.suppress(OSError):  # a kernel without message queues
            flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
            linux.mount("mqueue", dev + "/mqueue", "mqueue", flags)

    def _show_entries(self, directory: str) -> None:
        """Fill a skeleton directory with the original's entries: copies links, and binds all else read-only."""
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
        if self._unmapped is not None and not self._privileged:
            try:
                attributes = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NODEV
                linux.bind_mapped(entry.path, target, self._unmapped, attributes)
                return
            except OSError:  # not every file system can
                self._shows_owners = True
        with contextlib.suppress(OSError):  # an entry that cannot be read, such as a dead mount, stays empty
            linux.bind(entry.path, target)
            linux.make_read_only(target, 0 if self._privileged else linux.MOUNT_ATTR_NODEV)

    def _ensure(self, target: str, *, is_directory: bool) -> None:
        os.close(self._mount_point(target, is_directory=is_directory))

    def _mount_point(self, target: str, *, is_directory: bool) -> int:
        """Open a mount point, made if missing; resolves the container's links inside its root.

        It returns a descriptor, because other containers can change volumes that are mounted already.
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
        """Replace the read-only directories on a path by skeleton directories."""
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


def _host_keys() -> list[str]:
    try:
        names = os.listdir("/etc/ssh")
    except OSError:
        return []
    return [f"/etc/ssh/{name}" for name in names if name.startswith("ssh_host_") and not name.endswith(".pub")]


def _is_read_only(path: str) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _source(entry: dict[str, Any]) -> contextlib.AbstractContextManager[int]:
    """Open the source of a mount: a path of the node's, and below it a sub-path of the pod's."""
    if not entry.get("subPath"):
        return beneath.opened(entry["source"])
    return beneath.opened_below(entry["source"], entry["subPath"])


def _is_directory(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)
