"""Resolve paths whose parts a pod controls, without ever leaving a directory. Standard library only.

A pod can replace names, links and directories in its volumes and its image at any time, also between a check of a path
and its use. So this module checks no path before it uses it: the kernel resolves it to a descriptor in one call
(`openat2`, Linux 5.6) or, where that call is missing, `_Walk` opens name by name and lets the kernel follow no link.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator

MAX_LINKS = 40
"""Most symbolic links in one resolution, the kernel's own limit."""
MAX_DEPTH = 128
"""Most directories that `_Walk` holds open."""

_SYS_OPENAT2 = 437
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
_RESOLVE_BENEATH, _RESOLVE_IN_ROOT = 0x08, 0x10
_LACKING = (errno.ENOSYS, errno.EPERM)
"""Errors that show that `openat2` is missing: an older kernel, or a seccomp filter that does not know the call."""
_RETRIES = 32
"""Retries of a resolution that a concurrent rename has disturbed (EAGAIN); after these `_Walk` resolves the path."""
_PROC = 0x9FA0
"""Magic number of /proc, whose links are not text: they lead straight to what a process has open."""
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class Scope(enum.Enum):
    """How a path is resolved that leads out of the directory."""

    BENEATH = _RESOLVE_BENEATH
    """Refuse it with EXDEV; absolute paths and links count as leading out."""
    IN_ROOT = _RESOLVE_IN_ROOT
    """Treat the directory as the root directory: ``..`` stops there, absolute paths and links start there."""


def open_at(
    directory: int,
    path: str,
    flags: int = os.O_PATH,
    *,
    scope: Scope = Scope.BENEATH,
    links: bool = True,
    mounts: bool = True,
) -> int:
    """Open an existing file or directory at a path below a directory; return its descriptor.

    Args:
        directory: Descriptor of the directory.
        path: Path below it, by the rules of the scope.
        flags: Flags of `os.open`, without O_CREAT.
        scope: How a path is resolved that leads out.
        links: Whether to follow symbolic links; else they are refused with ELOOP.
        mounts: Whether to enter file systems mounted below the directory; else they are refused with EXDEV.

    Raises:
        OSError: The file does not exist, or the path leads out.
    """
    encoded = _encoded(path)
    resolve = scope.value | _RESOLVE_NO_MAGICLINKS
    resolve |= (0 if links else _RESOLVE_NO_SYMLINKS) | (0 if mounts else _RESOLVE_NO_XDEV)
    if _openat2_works():
        for _ in range(_RETRIES):
            found = _openat2(directory, encoded, flags | os.O_CLOEXEC, resolve)
            if found >= 0:
                return found
            if -found not in (errno.EAGAIN, errno.EINTR):
                raise _error(-found, path)
    with contextlib.closing(_Walk(directory, path, scope, links=links)) as walk:
        walk.follow()
        if walk.missing:
            raise _error(errno.ENOENT, path)
        found = walk.open(flags)
    if not mounts and _mount_of(found) != _mount_of(directory):
        os.close(found)
        raise _error(errno.EXDEV, path)
    return found


def make_directories(
    directory: int,
    path: str,
    mode: int = 0o755,
    *,
    scope: Scope = Scope.BENEATH,
    set_up: Callable[[int], None] | None = None,
) -> int:
    """Open a directory below another, made with its parents if missing; return its descriptor (O_PATH).

    Args:
        directory: Descriptor of the directory.
        path: Path below it, by the rules of the scope.
        mode: Mode of directories that are made, reduced by the process's umask.
        scope: How a path is resolved that leads out.
        set_up: Called with the descriptor (O_PATH) of each directory that was made.

    Raises:
        OSError: The path leads out, or a part of it is no directory.
    """
    with contextlib.closing(_Walk(directory, path, scope)) as walk:
        walk.follow()
        while walk.missing:
            walk.make_directory(mode)
            walk.step()
            if set_up is not None:
                set_up(walk.reached)
            walk.follow()
        return walk.open(os.O_PATH | os.O_DIRECTORY)


def make_mount_point(root: int, path: str, *, is_directory: bool) -> int:
    """Open a mount point inside a container's root, made if missing; return its descriptor (O_PATH)."""
    with contextlib.closing(_Walk(root, path, Scope.IN_ROOT)) as walk:
        walk.follow()
        while walk.missing:
            if len(walk.missing) == 1 and not is_directory:
                walk.make_file(0o644)
            else:
                walk.make_directory(0o755)
            walk.follow()
        return walk.open(os.O_PATH)


def locate(root: int, path: str) -> tuple[list[str], list[str]]:
    """Return the names that lead to a path inside a container's root, with links resolved, and those not existing."""
    with contextlib.closing(_Walk(root, path, Scope.IN_ROOT)) as walk:
        walk.follow()
        return walk.names, walk.missing


def open_regular(path: str) -> int:
    """Open a regular file for reading; never opens a link, pipe or device.

    Raises:
        FileNotFoundError: There is no regular file at the path.
    """
    found = os.open(path, _STEP)
    try:
        return reopen_regular(found, path)
    finally:
        os.close(found)


def reopen_regular(found: int, path: str) -> int:
    """Open a regular file for reading, given by a descriptor (O_PATH); FileNotFoundError when it is anything else."""
    if not stat.S_ISREG(os.fstat(found).st_mode):
        raise _error(errno.ENOENT, path)
    return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)


def read_regular(path: str, limit: int, *, from_end: bool = False) -> bytes:
    """Read at most ``limit`` bytes of a regular file; empty for anything else, as a pipe or device could block."""
    try:
        with open(open_regular(path), "rb") as file:
            if from_end:
                file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read(limit)
    except OSError:
        return b""


def change_directory(path: str) -> None:
    """Change to a directory inside this process's root; make it if missing, as container runtimes do.

    Links in /proc are not followed: one to an open descriptor could lead out of the container.
    """
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            directory = open_at(root, path, os.O_PATH | os.O_DIRECTORY, scope=Scope.IN_ROOT)
        except FileNotFoundError:
            directory = make_directories(root, path, scope=Scope.IN_ROOT)
        try:
            os.fchdir(directory)
        finally:
            os.close(directory)
    finally:
        os.close(root)


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_PATH) -> Iterator[int]:
    """Open a file at a trusted path, which the node or the operator has named, and close it at the end."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened_below(directory: str, path: str) -> Iterator[int]:
    """Open a file below a directory and close it at the end; OSError when the path leads out."""
    with opened(directory, os.O_PATH | os.O_DIRECTORY) as parent:
        descriptor = open_at(parent, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Walk:
    """A resolution name by name, for kernels without `openat2`.

    Each step opens one name in an open directory without following links, so that nothing can be replaced between a
    check and its use. ``..`` returns to the open directory of the step before, not to the present parent, which a
    rename may have changed.
    """

    def __init__(self, directory: int, path: str, scope: Scope, *, links: bool = True) -> None:
        _encoded(path)
        self.names: list[str] = []
        """Names resolved so far, without links and dots."""
        self._held = [os.open(".", _STEP | os.O_DIRECTORY, dir_fd=directory)]
        """Open descriptors: of the directory, and of each of the names."""
        self._todo: list[str] = []
        """Names not resolved yet, the next one last."""
        self._scope = scope
        self._links = links
        self._followed = 0
        self._path = path
        self._must_be_directory = False
        try:
            self._push(path)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close all descriptors."""
        while self._held:
            os.close(self._held.pop())

    @property
    def missing(self) -> list[str]:
        """The names that `follow` has left, of which the first does not exist."""
        return self._todo[::-1]

    @property
    def reached(self) -> int:
        """Descriptor (O_PATH) of the last resolved name."""
        return self._held[-1]

    def follow(self) -> None:
        """Resolve names until the end of the path, or until a name does not exist."""
        while self._todo:
            try:
                self.step()
            except FileNotFoundError:
                return
        if self._must_be_directory and not stat.S_ISDIR(os.fstat(self._held[-1]).st_mode):
            raise _error(errno.ENOTDIR, self._path)

    def step(self) -> None:
        """Resolve one name; FileNotFoundError when it does not exist."""
        name = self._todo[-1]
        if name == "..":
            self._todo.pop()
            self._back()
            return
        found = os.open(name, _STEP, dir_fd=self._held[-1])
        self._todo.pop()
        if stat.S_ISLNK(os.fstat(found).st_mode):
            self._follow_link(found)
        elif len(self._held) > MAX_DEPTH:
            os.close(found)
            raise _error(errno.ENAMETOOLONG, self._path)
        else:
            self._held.append(found)
            self.names.append(name)

    def _follow_link(self, found: int) -> None:
        try:
            target = os.readlink("", dir_fd=found)
            is_magic = target.startswith("/") and _file_system(found) == _PROC
        finally:
            os.close(found)
        self._followed += 1
        if self._followed > MAX_LINKS or not self._links or is_magic:
            raise _error(errno.ELOOP, self._path)
        self._push(target)

    def _push(self, path: str) -> None:
        if path.startswith("/"):
            if self._scope is Scope.BENEATH:
                raise _error(errno.EXDEV, self._path)
            while len(self._held) > 1:
                os.close(self._held.pop())
            self.names.clear()
        if not path:
            raise _error(errno.ENOENT, self._path)
        if not self._todo:  # the end of the whole path
            self._must_be_directory = self._must_be_directory or path.endswith(("/", "/."))
        self._todo += [part for part in path.split("/") if part not in ("", ".")][::-1]

    def _back(self) -> None:
        if not stat.S_ISDIR(os.fstat(self._held[-1]).st_mode):
            raise _error(errno.ENOTDIR, self._path)
        if self.names:
            os.close(self._held.pop())
            self.names.pop()
        elif self._scope is Scope.BENEATH:
            raise _error(errno.EXDEV, self._path)

    def make_directory(self, mode: int) -> None:
        """Make a directory of the next name; no error if another process has made it meanwhile."""
        if self._todo[-1] == "..":
            raise _error(errno.ENOENT, self._path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._todo[-1], mode, dir_fd=self._held[-1])

    def make_file(self, mode: int) -> None:
        """Make an empty file of the next name."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._todo[-1], flags, mode, dir_fd=self._held[-1]))

    def open(self, flags: int) -> int:
        """Open the last resolved name."""
        flags |= os.O_CLOEXEC
        if not self.names:
            return os.open(".", flags, dir_fd=self._held[0])
        return os.open(self.names[-1], flags | os.O_NOFOLLOW, dir_fd=self._held[-2])


def _encoded(path: str) -> bytes:
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise _error(errno.EINVAL, path) from None
    if b"\0" in encoded:
        raise _error(errno.EINVAL, path)
    return encoded


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """Call the kernel; return a descriptor or the negative error number."""
    how = struct.pack("QQQ", flags, 0, resolve)
    found = int(_libc.syscall(ctypes.c_long(_SYS_OPENAT2), directory, path, how, ctypes.c_size_t(len(how))))
    return found if found >= 0 else -ctypes.get_errno()


def _mount_of(descriptor: int) -> str:
    """Return the number of the mount a file was reached through."""
    with open(f"/proc/self/fdinfo/{descriptor}") as file:
        return next(line for line in file if line.startswith("mnt_id:"))


def _file_system(descriptor: int) -> int:
    """Return the magic number of the file system a file is on."""
    found = ctypes.create_string_buffer(256)
    if _libc.fstatfs(descriptor, found) < 0:
        raise OSError(ctypes.get_errno(), "fstatfs")
    return int(ctypes.c_long.from_buffer(found).value)


_works: bool | None = None


def _openat2_works() -> bool:
    """Return whether the kernel has `openat2`; tries it once."""
    global _works
    if _works is None:
        found = _openat2(-100, b"/", os.O_PATH | os.O_CLOEXEC, _RESOLVE_IN_ROOT)
        _works = -found not in _LACKING
        if found >= 0:
            os.close(found)
    return _works
