"""Read files of sandboxes: logs from the API, persistent volumes from their directories on this machine.

A task may change its volume's content at any time: paths are resolved below the volume's directory by descriptors,
links that lead out of it are not followed, and only regular files are opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence

from strato.api import catalog
from strato.client.cluster import Cluster
from strato.errors import ApiError
from strato.interop.mesos.cluster.volumes import Claims
from strato.interop.mesos.endpoints.files import FileStatus
from strato.interop.mesos.master.sandboxes import Folder, LogPlace, Place, VolumePlace
from strato.node import beneath

_DIRECTORY = stat.S_IFDIR | 0o755
_MOST_ENTRIES = 10_000
_CHUNK_BYTES = 1 << 16


class SandboxFiles:
    """Reads the places that `strato.interop.mesos.master.sandboxes.find` returns.

    Args:
        namespace: Namespace of the pods.
        claims: Claims of the volumes.
    """

    def __init__(self, cluster: Cluster, namespace: str, claims: Claims) -> None:
        self._cluster, self._namespace, self._claims = cluster, namespace, claims

    async def status(self, name: str, place: Place) -> FileStatus:
        """Return the status of a file.

        Raises:
            FileNotFoundError: It is not there, or leads out of its volume.
        """
        match place:
            case Folder():
                return FileStatus(name, mode=_DIRECTORY)
            case LogPlace():
                size, _ = await self.read(place, 0, 0)
                return FileStatus(name, size)
            case VolumePlace():
                directory = await self._directory(place)
                return await asyncio.to_thread(_status_below, directory, place.path, name)

    async def entries(self, place: Place) -> Sequence[FileStatus]:
        """Return the entries of a directory, by name.

        Raises:
            FileNotFoundError: It is not there, or leads out of its volume.
        """
        match place:
            case Folder():
                return [await self.status(name, one) for name, one in sorted(place.entries.items())]
            case LogPlace():
                return []
            case VolumePlace():
                directory = await self._directory(place)
                return await asyncio.to_thread(_list_below, directory, place.path)

    async def read(self, place: Place, offset: int, length: int) -> tuple[int, bytes]:
        """Return the size of a file and a part of it.

        Raises:
            FileNotFoundError: It is not there, is no regular file, or leads out of its volume.
            IsADirectoryError: It is a directory.
        """
        match place:
            case Folder():
                raise IsADirectoryError
            case LogPlace():
                size, parts = 0, []
                async for chunk in self._log(place):  # the API cannot start a log at an offset
                    begin, end = max(offset - size, 0), offset + length - size
                    if begin < len(chunk) and end > 0:
                        parts.append(chunk[begin:end])
                    size += len(chunk)
                return size, b"".join(parts)
            case VolumePlace():
                directory = await self._directory(place)
                return await asyncio.to_thread(_read_below, directory, place.path, offset, length)

    async def stream(self, place: Place) -> AsyncIterator[bytes]:
        """Yield the bytes of a file; the stream ends early if the file goes meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            if isinstance(place, LogPlace):
                async for chunk in self._log(place):
                    yield chunk
                return
            offset = 0
            while True:
                _, data = await self.read(place, offset, _CHUNK_BYTES)
                if not data:
                    return
                yield data
                offset += len(data)

    async def _log(self, place: LogPlace) -> AsyncIterator[bytes]:
        path = catalog.POD.path(self._namespace, place.pod, "log")
        try:
            async for chunk in self._cluster.stream(path, query={"container": place.container}):
                yield chunk
        except ApiError as error:  # the pod is gone, or has not started
            raise FileNotFoundError(str(error)) from error

    async def _directory(self, place: VolumePlace) -> str:
        directory = await self._claims.directory(place.volume)
        if directory is None:
            raise FileNotFoundError(place.volume)
        return directory


@contextlib.contextmanager
def _found(directory: str, path: str) -> Iterator[int]:
    """Yield a descriptor (O_PATH) of a path below a directory, which cannot be read by it."""
    try:
        with beneath.opened_below(directory, path or ".") as found:
            yield found
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise
    except OSError as error:  # the path leads out, is a loop of links, or is unreadable
        raise FileNotFoundError(str(error)) from error


def _status_of(name: str, known: os.stat_result) -> FileStatus:
    shown = os.fsencode(name).decode(errors="replace")
    return FileStatus(
        shown, known.st_size, known.st_mode, known.st_mtime, known.st_nlink, str(known.st_uid), str(known.st_gid)
    )


def _status_below(directory: str, path: str, name: str) -> FileStatus:
    with _found(directory, path) as found:
        return _status_of(name, os.fstat(found))


def _list_below(directory: str, path: str) -> list[FileStatus]:
    with _found(directory, path) as found:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            return []
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=found)
        try:
            entries = []
            for name in sorted(os.listdir(opened))[:_MOST_ENTRIES]:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    entries.append(_status_of(name, os.stat(name, dir_fd=opened, follow_symlinks=False)))
            return entries
        finally:
            os.close(opened)


def _read_below(directory: str, path: str, offset: int, length: int) -> tuple[int, bytes]:
    with _found(directory, path) as found:
        if stat.S_ISDIR(os.fstat(found).st_mode):
            raise IsADirectoryError(path)
        opened = beneath.reopen_regular(found, path)
        try:
            return os.fstat(opened).st_size, os.pread(opened, length, offset)
        finally:
            os.close(opened)
