"""``strato cp``: copy files and folders from and to a container."""

from __future__ import annotations

import asyncio
import os
import posixpath
import tarfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from strato.cli.connect import with_cluster
from strato.cli.podtargets import container_of, find_pod
from strato.errors import ApiError, StratoError, UsageError

if TYPE_CHECKING:
    from strato.client.http import HttpCluster

_READ_BYTES = 32 * 1024
_MISSING = ("not found in $path", "no such file or directory")
"""Messages, in lower case, by which container runtimes report that the image lacks a program."""
_ERROR_BYTES = 4096


class CopyFailed(StratoError):
    """Something could not be copied."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A container, by its pod."""

    cluster: HttpCluster
    namespace: str
    pod: str
    container: str

    async def run(
        self, command: Sequence[str], stdin: AsyncIterator[bytes] | None, out: Callable[[bytes], None]
    ) -> tuple[int, str]:
        """Run a command; return its exit code and its errors."""
        from strato.client.remotecommand import Streams, run_command

        errors = bytearray()
        streams = Streams(
            stdin=stdin, stdout=out, stderr=lambda data: errors.extend(data[: max(0, _ERROR_BYTES - len(errors))])
        )
        code = await run_command(self.cluster, self.namespace, self.pod, self.container, command, streams)
        return code, errors.decode(errors="replace").strip()

    async def has(self, program: str) -> bool:
        """Return whether a container has a program."""
        return await self._code([program, "--version"]) is not None

    async def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder; False when the image has no program to test it."""
        return await self._code(["test", "-d", path]) == 0

    async def _code(self, command: Sequence[str]) -> int | None:
        """Return a command's exit code, None when the image lacks the program."""
        try:
            return (await self.run(command, None, lambda _: None))[0]
        except ApiError as error:
            if any(words in str(error).lower() for words in _MISSING):
                return None
            raise


@click.command()
@click.argument("source")
@click.argument("destination")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace.")
@click.option("-c", "--container", default="", help="Container, when the pod has several; the first one without it.")
@click.pass_context
def cp(ctx: click.Context, source: str, destination: str, namespace: str, container: str) -> None:
    """Copy SOURCE to DESTINATION, of which one is TARGET:PATH: a pod's name or job/NAME, and a path in its container.

    A folder is copied with all below it, by the container's tar; without tar single files are copied by its cat, and
    folders into it by its sh. Links and devices are left out.
    """
    work = partial(_copy, source=source, destination=destination, namespace=namespace, asked=container)
    with_cluster(ctx, work)


async def _copy(cluster: HttpCluster, *, source: str, destination: str, namespace: str, asked: str) -> None:
    target_from, path_from = _split(source)
    target_to, path_to = _split(destination)
    if bool(target_from) is bool(target_to):
        raise UsageError("one of the two must be in a container, as TARGET:PATH, and the other on this machine")
    path = path_from if target_from else path_to
    if not path:
        raise UsageError(f"{(source if target_from else destination)!r}: a path must follow the colon")
    pod = await find_pod(cluster, namespace, target_from or target_to)
    place = _Place(cluster, namespace, pod["metadata"]["name"], container_of(pod, asked))
    if target_to:
        if not os.path.lexists(source):
            raise UsageError(f"{source!r}: no such file or folder on this machine")
        await _upload(place, Path(path_from), path_to)
    else:
        await _download(place, path_from, Path(path_to))


def _split(text: str) -> tuple[str, str]:
    """Split ``TARGET:PATH``; the target is empty for a path of this machine."""
    before, colon, after = text.partition(":")
    if not colon or before.startswith((".", "/")) or os.path.exists(text):
        return "", text
    return before, after


# -- into a container --------------------------------------------------------------------------------------------------


async def _upload(place: _Place, source: Path, target: str) -> None:
    if target.endswith("/") or await place.is_folder(target):
        target = posixpath.join(target, source.resolve().name)
    folder, name = posixpath.split(target.rstrip("/"))
    if await place.has("tar"):
        packed = _through_pipe(lambda end: _pack(source, name, end))
        code, errors = await place.run(["tar", "-xmf", "-", "-C", folder or "."], packed, lambda _: None)
        if code:
            raise CopyFailed(f"tar in the container ended with exit code {code}: {errors}")
        return
    if not await place.has("sh"):
        raise CopyFailed("the container's image has neither tar nor sh: nothing can be copied into it")
    for path, relative in _files(source):
        whole = posixpath.join(target, relative) if relative else target
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod "$2" "$1"'
        mode = f"{path.stat().st_mode & 0o777:o}"
        code, errors = await place.run(["sh", "-c", script, "sh", whole, mode], _content(path), lambda _: None)
        if code:
            raise CopyFailed(f"{path}: {errors or f'exit code {code}'}")


def _pack(source: Path, name: str, end: IO[bytes]) -> None:
    with tarfile.open(fileobj=end, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        archive.add(source.resolve(), arcname=name, filter=_only_files)


def _only_files(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Drop links and devices from the archive, and the owners of files: the container's tar sets its own."""
    if not (entry.isreg() or entry.isdir() or entry.islnk()):
        click.echo(f"left out, no file or folder: {entry.name}", err=True)
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _files(source: Path) -> list[tuple[Path, str]]:
    if not source.is_dir():
        return [(source, "")]
    found = sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())
    return [(path, path.relative_to(source).as_posix()) for path in found]


async def _content(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, _READ_BYTES):
            yield chunk


async def _through_pipe(write: Callable[[IO[bytes]], None]) -> AsyncIterator[bytes]:
    """Run ``write`` in a thread on the writing end of a pipe and yield the bytes; a slow reader slows the writer."""
    reading, writing = os.pipe()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            with open(writing, "wb") as end:
                write(end)
        except BrokenPipeError:
            return  # the reader has closed the pipe
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work, daemon=True, name="tar")
    thread.start()
    with open(reading, "rb", buffering=0) as end:
        while chunk := await asyncio.to_thread(end.read, _READ_BYTES):
            yield chunk
    if problems:
        raise CopyFailed(f"cannot be read: {problems[0]}") from problems[0]


# -- out of a container ------------------------------------------------------------------------------------------------


async def _download(place: _Place, source: str, target: Path) -> None:
    if target.is_dir():
        target = target / posixpath.basename(posixpath.normpath(source))
    if not target.parent.is_dir():
        raise UsageError(f"{str(target.parent)!r}: no such folder on this machine")
    if not await place.has("tar"):
        await _fetch_file(place, source, target)
        return
    folder, name = posixpath.split(posixpath.normpath(source))
    reading, writing = os.pipe()
    unpacked = asyncio.ensure_future(asyncio.to_thread(_unpack, reading, name, target))
    with open(writing, "wb", buffering=0) as end:

        def take(data: bytes) -> None:
            view = memoryview(data)
            while view:
                view = view[end.write(view) or 0 :]

        try:
            code, errors = await place.run(["tar", "-cf", "-", "-C", folder or ".", "--", name], None, take)
        except BrokenPipeError:
            code, errors = 0, ""  # `_unpack` has failed and closed the pipe; awaiting it below raises its error
    await unpacked
    if code:
        raise CopyFailed(f"tar in the container ended with exit code {code}: {errors}")


def _unpack(reading: int, name: str, target: Path) -> None:
    """Write the files and folders of an archive below a target, and nowhere else, whatever its entries are called."""
    with open(reading, "rb") as end:
        try:
            with tarfile.open(fileobj=end, mode="r|") as archive:
                for entry in archive:
                    _unpack_entry(archive, entry, name, target)
        except tarfile.ReadError:
            pass  # empty archive: the command's exit code says why
        except OSError as error:
            raise CopyFailed(f"{error.filename or target}: {error.strerror or error}") from error
        while end.read(_READ_BYTES):  # tar's padding; unread, its writer would get BrokenPipeError
            pass


def _unpack_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, name: str, target: Path) -> None:
    parts = [part for part in entry.name.split("/") if part not in ("", ".")]
    if name not in (".", "..", "/", "") and parts[:1] == [name]:
        parts = parts[1:]
    if ".." in parts:
        raise CopyFailed(f"{entry.name!r}: an entry that leads out of the folder; nothing more is copied")
    path = target.joinpath(*parts)
    if entry.isdir():
        path.mkdir(exist_ok=True, parents=True)
    elif entry.isreg() and (content := archive.extractfile(entry)) is not None:
        path.parent.mkdir(exist_ok=True, parents=True)
        with path.open("wb") as file:
            while chunk := content.read(1 << 20):
                file.write(chunk)
        path.chmod(entry.mode & 0o777)
    else:
        click.echo(f"left out, no file or folder: {entry.name}", err=True)


async def _fetch_file(place: _Place, source: str, target: Path) -> None:
    """Copy one file without tar."""
    if not await place.has("cat"):
        raise CopyFailed("the container's image has neither tar nor cat: nothing can be copied out of it")
    if await place.is_folder(source):
        raise CopyFailed(f"{source!r} is a folder, and the container's image has no tar to pack it; copy its files")
    temporary = target.with_name(target.name + ".part")
    try:
        with temporary.open("wb") as file:

            def take(data: bytes) -> None:
                file.write(data)

            code, errors = await place.run(["cat", "--", source], None, take)
        if code:
            raise CopyFailed(errors or f"cat in the container ended with exit code {code}")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
