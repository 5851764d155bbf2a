"""Files of sandboxes: LIST_FILES and READ_FILE, and the old pages below ``/files``."""

from __future__ import annotations

import base64
import re
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from strato.api.meta import Json
from strato.api.wire import Request, Response
from strato.interop.mesos.endpoints.negotiation import refused
from strato.interop.mesos.master.sandboxes import Folder, Place, find
from strato.interop.mesos.master.state import MasterState

PATHS = frozenset(f"/files/{name}{end}" for name in ("browse", "read", "download", "debug") for end in ("", ".json"))
MOST_BYTES = 16 * 4096
"""Most bytes of one read, as in Mesos' agents."""
_NUMBER = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Status of a file."""

    name: str
    size: int = 0
    mode: int = stat.S_IFREG | 0o644
    modified: float = 0.0
    links: int = 1
    owner: str = "root"
    group: str = "root"

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)


class Files(Protocol):
    """Access to files of sandboxes. Methods raise `FileNotFoundError` for files that are missing or forbidden."""

    async def status(self, name: str, place: Place) -> FileStatus:
        """Return the status of a file."""

    async def entries(self, place: Place) -> Sequence[FileStatus]:
        """Return the entries of a directory; none for a file."""

    async def read(self, place: Place, offset: int, length: int) -> tuple[int, bytes]:
        """Return the size of a file and a part of it; IsADirectoryError for a directory."""

    def stream(self, place: Place) -> AsyncIterator[bytes]:
        """Return the bytes of a file that is no directory."""


def _place(state: MasterState, path: str, agent_id: str) -> Place:
    place = find(state, path, agent_id)
    if place is None:
        raise refused(404, "")
    return place


async def answer(files: Files, state: MasterState, call: Json, agent_id: str = "") -> Json | None:
    """Return the answer to LIST_FILES or READ_FILE; None for other calls.

    Args:
        files: Access to the files.
        state: The master's state.
        call: An operator's call.
        agent_id: The agent whose files are served; empty is all agents.

    Raises:
        Refused: There is no such file, or it is a directory.
    """
    kind = call["type"]
    if kind == "LIST_FILES":
        listed = await _list(files, _place(state, call["list_files"]["path"], agent_id))
        shown = [_file_info(call["list_files"]["path"], each) for each in listed]
        return {"type": kind, "list_files": {"file_infos": shown}}
    if kind == "READ_FILE":
        body = call["read_file"]
        place = _place(state, body["path"], agent_id)
        size, data = await _read(files, place, min(body["offset"], 1 << 62), body.get("length", MOST_BYTES))
        return {"type": kind, "read_file": {"size": size, "data": base64.b64encode(data).decode()}}
    return None


async def _list(files: Files, place: Place) -> Sequence[FileStatus]:
    try:
        return await files.entries(place)
    except FileNotFoundError as error:
        raise refused(404, "") from error


async def _read(files: Files, place: Place, offset: int, length: int) -> tuple[int, bytes]:
    try:
        return await files.read(place, offset, min(length, MOST_BYTES))
    except FileNotFoundError as error:
        raise refused(404, "") from error
    except IsADirectoryError as error:
        raise refused(400, "Cannot read a directory.\n") from error


def _file_info(path: str, status: FileStatus) -> Json:
    return {
        "path": f"{path.rstrip('/')}/{status.name}",
        "nlink": status.links,
        "size": status.size,
        "mtime": {"nanoseconds": int(status.modified * 1e9)},
        "mode": status.mode,
        "uid": status.owner,
        "gid": status.group,
    }


def _old_file_info(path: str, status: FileStatus) -> Json:
    known = _file_info(path, status)
    return {**known, "mtime": int(status.modified), "mode": stat.filemode(status.mode)}


# -- the old pages -----------------------------------------------------------------------------------------------------


async def handle(files: Files, state: MasterState, path: str, request: Request, agent_id: str) -> Response:
    """Answer a request for one of `PATHS`.

    Raises:
        Refused: Holds the response to send.
    """
    if request.method not in ("GET", "HEAD"):
        raise refused(405, f"Expecting one of {{ 'GET' }}, but received '{request.method}'")
    page = path.removesuffix(".json").rpartition("/")[2]
    if page == "debug":  # Mesos lists attached paths here; this master attaches none
        return Response(200, b"{}")
    given = request.query.get("path", [""])[0]
    if not given:
        raise refused(400, "Expecting 'path=value' in query.\n")
    place = _place(state, given, agent_id)
    if page == "browse":
        listed = await _list(files, place)
        return Response(200, msgspec.json.encode([_old_file_info(given, each) for each in listed]))
    if page == "download":
        return await _download(files, place, given)
    offset, length = _number(request.query, "offset"), _number(request.query, "length")
    if offset < 0:  # a negative offset asks for the size only
        size, _ = await _read(files, place, 0, 0)
        return Response(200, msgspec.json.encode({"offset": size, "data": ""}))
    size, data = await _read(files, place, offset, MOST_BYTES if length < 0 else length)
    found = {"offset": min(offset, size), "data": data.decode(errors="replace")}
    return Response(200, msgspec.json.encode(found))


async def _download(files: Files, place: Place, path: str) -> Response:
    name = path.rstrip("/").rpartition("/")[2]
    try:
        is_directory = isinstance(place, Folder) or (await files.status(name, place)).is_directory
    except FileNotFoundError as error:
        raise refused(404, "") from error
    if is_directory:
        raise refused(400, "Cannot download a directory.\n")
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    headers = {"Content-Disposition": f"attachment; filename={plain}", "X-Content-Type-Options": "nosniff"}
    return Response(200, content_type="application/octet-stream", headers=headers, stream=files.stream(place))


def _number(query: Mapping[str, Sequence[str]], name: str) -> int:
    """Return a number of the query, -1 if it is missing."""
    text = query.get(name, ["-1"])[0]
    if not _NUMBER.fullmatch(text):
        raise refused(400, f"Failed to parse {name}: '{text[:40]}' is not a number.\n")
    return int(text)
