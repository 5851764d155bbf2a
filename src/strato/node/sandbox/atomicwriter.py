"""Write the files of a configMap, secret, downwardAPI or projected volume, as the kubelet's atomic writer does.

The files are written into a directory named by a hash of their content; the link ``..data`` leads to it and is replaced
atomically, and containers see links through ``..data``. All paths are resolved relative to the volume's descriptor and
no existing link is followed, so that no path can place a file outside of the volume.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass

from strato.errors import one_line
from strato.node import beneath
from strato.node.removal import remove_tree
from strato.node.sandbox.environment import ConfigProblem

DEFAULT_MODE = 0o644
_DATA, _FRESH = "..data", "..data_new"
_GROUP_READS = 0o440
_MAX_PATH_BYTES, _MAX_NAME_BYTES = 4096, 255


@dataclass(frozen=True, slots=True)
class File:
    """One file of a payload volume."""

    content: bytes
    mode: int = DEFAULT_MODE


def write_payload(directory: str, files: Mapping[str, File], group: int | None = None) -> bool:
    """Write a payload volume so that readers see either the old files or the new ones, never a mixture.

    Unchanged files are not written again, not even after a restart of the node.

    Args:
        directory: The volume's directory; made if missing.
        files: Relative path → file.
        group: Group that may read all files (``fsGroup``), None to leave that to the files' modes.

    Returns:
        Whether there was anything to write.

    Raises:
        ConfigProblem: A file's path leads out of the volume, or through another file.
    """
    for path in files:
        _check(path)
    version = f"..{_digest(files, group)}"
    if _current(directory) == version:
        return False
    os.makedirs(directory, exist_ok=True)
    with beneath.opened(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as volume:
        _set_directory(volume, group)
        old = _current(directory)
        remove_tree(os.path.join(directory, version))  # left unfinished by a killed process
        os.mkdir(version, 0o755, dir_fd=volume)
        new = beneath.open_at(volume, version, os.O_RDONLY | os.O_DIRECTORY, links=False)
        try:
            _set_directory(new, group)
            for path, file in files.items():
                _write(new, path, file, group)
        except OSError as err:
            name = os.path.basename(directory)
            raise ConfigProblem(f"the files of volume {name} cannot be written: {one_line(err)}") from err
        finally:
            os.close(new)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FRESH, dir_fd=volume)
        os.symlink(version, _FRESH, dir_fd=volume)
        os.replace(_FRESH, _DATA, src_dir_fd=volume, dst_dir_fd=volume)
        _link(volume, {path.split("/", 1)[0] for path in files})
    if old:
        remove_tree(os.path.join(directory, old))
    return True


def _check(path: str) -> None:
    """Refuse invalid paths; the API server refuses them too, but another or older one may not."""
    parts = path.split("/")
    is_fine = path and not path.startswith(("/", "..")) and ".." not in parts and "\0" not in path
    if not is_fine or len(path.encode()) > _MAX_PATH_BYTES or any(len(p.encode()) > _MAX_NAME_BYTES for p in parts):
        raise ConfigProblem(f"invalid path {path!r} of a volume's file: it must be relative and stay in the volume")


def _current(directory: str) -> str:
    try:
        version = os.readlink(os.path.join(directory, _DATA))
    except OSError:
        return ""
    return version if version.startswith("..") and version != ".." and "/" not in version else ""


def _write(new: int, path: str, file: File, group: int | None) -> None:
    above, name = os.path.split(path.rstrip("/"))
    parent = beneath.make_directories(new, above or ".", set_up=lambda fd: _set_directory(fd, group))
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=parent)
    finally:
        os.close(parent)
    with open(descriptor, "wb") as handle:
        handle.write(file.content)
        mode = file.mode & 0o777
        if group is not None:
            os.fchown(descriptor, -1, group)
            mode |= _GROUP_READS
        os.fchmod(descriptor, mode)


def _set_directory(descriptor: int, group: int | None) -> None:
    path = f"/proc/self/fd/{descriptor}"
    if group is not None:
        os.chown(path, -1, group)
    os.chmod(path, 0o755 if group is None else 0o755 | stat.S_ISGID)


def _link(volume: int, tops: set[str]) -> None:
    """Make links for the files' top-level names in the volume, and remove those of names that are gone."""
    names = set(os.listdir(volume))
    for top in tops - names:
        os.symlink(f"{_DATA}/{top}", top, dir_fd=volume)
    for name in names - tops:
        if not name.startswith(".."):
            os.unlink(name, dir_fd=volume)


def _digest(files: Mapping[str, File], group: int | None) -> str:
    digest = hashlib.blake2b(str(group).encode(), digest_size=8)
    for path, file in sorted(files.items()):
        digest.update(f"{path}\0{file.mode:o}\0{len(file.content)}\0".encode())
        digest.update(file.content)
    return digest.hexdigest()
