"""Write an image's root file system: all entries end up below one directory, whatever their names and links say."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Protocol, Self

from strato.node import beneath
from strato.node.beneath import Scope
from strato.node.removal import remove_tree

MAX_BYTES = 32 << 30
"""Most bytes of an unpacked image."""
MAX_ENTRIES = 1_000_000
MAX_LINKS = 10 * MAX_ENTRIES
"""Most links that the trees of an image's layers may take; each layer's tree links all entries of the ones below."""
_CHUNK_BYTES = 1 << 20
_MAX_ID = (1 << 32) - 2


class Readable(Protocol):
    """A source of a file's content."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, empty at the end."""


class BadImage(Exception):
    """An image is refused; the message says which entry is bad, and why."""


@dataclass(slots=True)
class Budget:
    """How many bytes, entries and links of an image may still be unpacked."""

    max_bytes: int = MAX_BYTES
    max_entries: int = MAX_ENTRIES
    used_bytes: int = 0
    entries: int = 0
    links: int = 0
    is_cancelled: bool = False
    """Set by the caller to stop the unpacking thread."""

    def link(self) -> None:
        """Count a link to an entry of an earlier layer's tree.

        Raises:
            BadImage: There are too many links.
        """
        self.links += 1
        if self.links > MAX_LINKS:
            raise BadImage(f"the image's layers have more than {MAX_LINKS} entries in all")

    def take(self, name: str, size: int) -> None:
        """Count an entry.

        Raises:
            BadImage: The image is larger than allowed.
        """
        if self.is_cancelled:
            raise BadImage("it was given up")
        self.entries += 1
        self.used_bytes += size
        if self.used_bytes > self.max_bytes:
            raise BadImage(f"{name!r} makes the image larger than {self.max_bytes} bytes; see --max-size")
        if self.entries > self.max_entries:
            raise BadImage(f"the image has more than {self.max_entries} entries")


@dataclass(frozen=True, slots=True)
class EntryAttributes:
    """Mode, owner and times of an entry."""

    mode: int
    uid: int = 0
    gid: int = 0
    modified: float = 0.0

    def permissions(self, *, is_directory: bool) -> int:
        """Return the mode without set-user-id, and without write permission for others except in sticky directories."""
        if is_directory and self.mode & stat.S_ISVTX:
            return self.mode & 0o1777
        return self.mode & 0o755


@dataclass(slots=True)
class RootWriter:
    """Writes entries below a directory; replaces existing entries, and resolves links inside the directory."""

    directory: str
    budget: Budget
    owners: bool = field(default_factory=lambda: os.geteuid() == 0)
    """Whether entries get their owners, which only root can set."""
    _root: int = -1
    _directories: dict[str, EntryAttributes] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """Make the directory and open it."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        self._root = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the directory."""
        os.close(self._root)

    def close_directories(self) -> None:
        """Set the modes and times of directories, last: writes into them change times, and modes could forbid them."""
        for name, attributes in reversed(self._directories.items()):
            try:
                found = beneath.open_at(self._root, name, os.O_RDONLY | os.O_DIRECTORY, links=False)
            except OSError:  # a later entry has replaced the directory
                continue
            try:
                self._set(found, attributes, is_directory=True)
            finally:
                os.close(found)

    def make_directory(self, name: str, attributes: EntryAttributes) -> None:
        """Make a directory; an existing one keeps its entries."""
        parts = clean(name)
        self.budget.take(name, 0)
        if parts:
            parent, last = self._parent(parts)
            try:
                if not stat.S_ISDIR(_mode_of(parent, last)):
                    self._remove(parent, last)
                    os.mkdir(last, 0o755, dir_fd=parent)
            finally:
                os.close(parent)
        self._directories["/".join(parts) or "."] = attributes

    def write_file(self, name: str, source: Readable, size: int, attributes: EntryAttributes) -> None:
        """Write a regular file."""
        self.budget.take(name, size)
        parent, last = self._parent(clean(name))
        try:
            self._remove(parent, last)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(last, flags, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
        with open(descriptor, "wb", buffering=0) as target:
            left = size
            while left:
                data = source.read(min(left, _CHUNK_BYTES))
                if not data:
                    raise BadImage(f"{name!r} ends before its {size} bytes")
                target.write(data)
                left -= len(data)
            self._set(descriptor, attributes, is_directory=False)

    def make_link(self, name: str, target: str, attributes: EntryAttributes) -> None:
        """Make a symbolic link; its target is not checked, because only containers follow it, inside their root."""
        self.budget.take(name, len(target))
        parent, last = self._parent(clean(name))
        try:
            self._remove(parent, last)
            os.symlink(target, last, dir_fd=parent)
            if self.owners:
                os.chown(last, *_owner(name, attributes), dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)

    def make_hard_link(self, name: str, target: str) -> None:
        """Make a hard link to a file of the image; can never reach a file of the machine."""
        self.budget.take(name, 0)
        source_parent, source = self._parent(clean(target), make=False)
        try:
            if not stat.S_ISREG(_mode_of(source_parent, source)) and not stat.S_ISLNK(_mode_of(source_parent, source)):
                raise BadImage(f"{name!r} is another name of {target!r}, which is no file of the image")
            parent, last = self._parent(clean(name))
            try:
                same = _identity(parent, last) == _identity(source_parent, source)
                if not same:
                    self._remove(parent, last)
                    os.link(source, last, src_dir_fd=source_parent, dst_dir_fd=parent, follow_symlinks=False)
            finally:
                os.close(parent)
        finally:
            os.close(source_parent)

    def remove(self, name: str) -> None:
        """Remove the entry that an earlier layer has under a name, if any."""
        self.budget.take(name, 0)
        try:
            parent, last = self._parent(clean(name), make=False)
        except BadImage:
            return
        try:
            self._remove(parent, last)
        finally:
            os.close(parent)

    def names_in(self, name: str) -> list[str]:
        """Return the names in a directory; empty if there is no such directory."""
        path = "/".join(clean(name)) or "."
        try:
            found = beneath.open_at(self._root, path, os.O_RDONLY | os.O_DIRECTORY, scope=Scope.IN_ROOT)
        except OSError:
            return []
        try:
            return os.listdir(found)
        finally:
            os.close(found)

    def _parent(self, parts: list[str], *, make: bool = True) -> tuple[int, str]:
        if not parts:
            raise BadImage("an entry that is no directory has the name of the root")
        path = "/".join(parts[:-1]) or "."
        try:
            if make:
                return beneath.make_directories(self._root, path, scope=Scope.IN_ROOT), parts[-1]
            return beneath.open_at(self._root, path, os.O_PATH | os.O_DIRECTORY, scope=Scope.IN_ROOT), parts[-1]
        except OSError as err:
            raise BadImage(f"{'/'.join(parts)!r} cannot be placed: {err.strerror}") from err

    def _remove(self, parent: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=parent)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            remove_tree(f"/proc/self/fd/{parent}/{name}")

    def _set(self, descriptor: int, attributes: EntryAttributes, *, is_directory: bool) -> None:
        if self.owners:
            os.fchown(descriptor, *_owner("an entry", attributes))
        os.fchmod(descriptor, attributes.permissions(is_directory=is_directory))
        os.utime(descriptor, (attributes.modified, attributes.modified))


def clean(name: str) -> list[str]:
    """Return the parts of an entry's name.

    Raises:
        BadImage: The name leads out of the image, or is invalid.
    """
    parts: list[str] = []
    for part in name.split("/"):
        if part == ".." and not parts:
            raise BadImage(f"{name!r} leads out of the image")
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if "\0" in name:
        raise BadImage(f"{name!r} has a null character")
    return parts


def _owner(name: str, attributes: EntryAttributes) -> tuple[int, int]:
    if not (0 <= attributes.uid <= _MAX_ID and 0 <= attributes.gid <= _MAX_ID):
        raise BadImage(f"{name!r} belongs to {attributes.uid}:{attributes.gid}, which nobody can be")
    return attributes.uid, attributes.gid


def _mode_of(parent: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _identity(parent: int, name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
