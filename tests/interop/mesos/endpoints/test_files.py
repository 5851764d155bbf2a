"""Files of sandboxes: paths, the operator's calls to master and agent, the old pages."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strato.api.wire import Request, Response
from strato.interop.mesos.endpoints.files import MOST_BYTES
from strato.interop.mesos.master.sandboxes import Folder, LogPlace, VolumePlace, directory_of, find
from strato.interop.mesos.master.volumes import volume_name
from strato.interop.mesos.wire import JSON, PROTOBUF, message
from tests.interop.mesos.worlds import World, task

RESERVED = {"reservations": [{"type": "STATIC", "role": "r"}]}


def _volume(path: str, persistence_id: str) -> dict[str, Any]:
    info = {"persistence": {"id": persistence_id}, "volume": {"container_path": path, "mode": "RW"}}
    return {"name": "disk", "type": "SCALAR", "scalar": {"value": 1}, **RESERVED, "disk": info}


def _world() -> tuple[World, Any, Any]:
    """Return a world with a task ``t`` and a group of ``a`` and ``b``."""
    world = World()
    world.agent("S0", "cpus:8;mem:8192;disk(r):100")
    framework, listener = world.subscribe(
        roles=["r"], capabilities=[{"type": "MULTI_ROLE"}, {"type": "RESERVATION_REFINEMENT"}]
    )
    volumes = [_volume("d/deep", "v1"), _volume("e", "v2"), _volume("/abs", "v3"), _volume("../out", "v4")]
    info = task("t")
    info["resources"] += volumes
    world.advance()
    [offer] = world.offers(listener)
    executor = {"type": "DEFAULT", "executor_id": {"value": "E"}, "resources": task()["resources"]}
    group = {"executor": executor, "task_group": {"tasks": [task("a"), task("b")]}}
    operations = [
        {"type": "CREATE", "create": {"volumes": volumes}},
        {"type": "LAUNCH", "launch": {"task_infos": [info]}},
        {"type": "LAUNCH_GROUP", "launch_group": group},
    ]
    world.call(framework, "ACCEPT", offer_ids=[offer["id"]], operations=operations)
    assert len(world.launched) == 2, listener.events
    one, many = world.state.units.values()
    return world, one, many


def test_paths_lead_into_sandboxes() -> None:
    world, one, many = _world()
    latest = f"/framework/{one.framework_id}/executor/t/latest"
    for root in (latest, f"{latest}//./", directory_of(one), directory_of(one).replace(one.name, "latest")):
        place = find(world.state, root)
        assert isinstance(place, Folder), root
        assert place.entries.keys() == {"stdout", "d", "e"}, "what lies outside of the sandbox is not in it"
    assert find(world.state, f"{latest}/stdout") == LogPlace(one.name, "task-0")
    first, second = volume_name("S0", "r", "v1"), volume_name("S0", "r", "v2")
    assert find(world.state, f"{latest}/d/deep") == VolumePlace(first, "")
    assert find(world.state, f"{latest}/d/deep/x/y") == VolumePlace(first, "x/y")
    assert find(world.state, f"{latest}/e/x") == VolumePlace(second, "x")
    group = f"/framework/{one.framework_id}/executor/E/latest"
    assert find(world.state, f"{group}/tasks/b/stdout") == LogPlace(many.name, "task-1")
    assert find(world.state, f"{group}/stdout") is None
    assert find(world.state, directory_of(one), "S1") is None, "it is another agent's"


@pytest.mark.parametrize(
    "path",
    ["", "/", "/etc/passwd", "{latest}/../../etc/passwd", "{latest}/e/../../x", "{latest}/stdout/x", "{latest}/stderr",
     "/framework/other/executor/t/latest", "{latest}/e/\0", "/var/lib/mesos", "{latest}" + "/x" * 3000],
)  # fmt: skip
def test_other_paths_lead_nowhere(path: str) -> None:
    world, one, _ = _world()
    assert find(world.state, path.replace("{latest}", f"/framework/{one.framework_id}/executor/t/latest")) is None


@given(st.text(alphabet="/.et\0", max_size=30))
def test_no_path_leaves_a_volume(rest: str) -> None:
    world, one, _ = _KEPT
    place = find(world.state, f"/framework/{one.framework_id}/executor/t/latest/e/{rest}")
    if isinstance(place, VolumePlace):
        assert not place.path.startswith("/")
        assert ".." not in place.path.split("/")


_KEPT = _world()


def _post(world: World, path: str, call: Any, content_type: str = JSON, kind: str = "master") -> Response:
    body = message(f"{kind}.Call").encode(call, content_type)
    headers = {"content-type": content_type, "accept": content_type}
    return asyncio.run(world.endpoints.handle(Request("POST", path, headers=headers, body=body)))


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
@pytest.mark.parametrize(("path", "kind"), [("/api/v1", "master"), ("/slave(S0)/api/v1", "agent")])
def test_operators_list_and_read_files(path: str, kind: str, content_type: str) -> None:
    world, one, _ = _world()
    latest = f"/framework/{one.framework_id}/executor/t/latest"
    world.files.contents[LogPlace(one.name, "task-0")] = b"line 1\nline 2\n"
    for name in ("v1", "v2"):
        world.files.contents[VolumePlace(volume_name("S0", "r", name), "")] = b""

    def ask(call: Any) -> Any:
        response = _post(world, path, call, content_type, kind)
        assert response.status == 200, response.body
        return message(f"{kind}.Response").decode(response.body, content_type)

    listed = ask({"type": "LIST_FILES", "list_files": {"path": latest}})["list_files"]["file_infos"]
    assert {each["path"]: each["size"] for each in listed} == {
        f"{latest}/stdout": 14, f"{latest}/d": 0, f"{latest}/e": 0,
    }  # fmt: skip
    body = {"path": f"{latest}/stdout", "offset": 5, "length": 4}
    read = ask({"type": "READ_FILE", "read_file": body})["read_file"]
    assert (read["size"], base64.b64decode(read["data"])) == (14, b"1\nli")


@pytest.mark.parametrize(("path", "kind"), [("/api/v1", "master"), ("/slave(S0)/api/v1", "agent")])
def test_files_that_cannot_be_read_are_refused(path: str, kind: str) -> None:
    world, one, _ = _world()
    latest = f"/framework/{one.framework_id}/executor/t/latest"

    def ask(call: Any) -> tuple[int, bytes]:
        response = _post(world, path, call, kind=kind)
        return response.status, response.body

    assert ask({"type": "READ_FILE", "read_file": {"path": "/etc/passwd", "offset": 0}})[0] == 404
    assert ask({"type": "READ_FILE", "read_file": {"path": f"{latest}/stdout", "offset": 0}})[0] == 404
    directory = {"type": "READ_FILE", "read_file": {"path": latest, "offset": 0}}
    assert ask(directory) == (400, b"Cannot read a directory.\n")
    assert ask({"type": "LIST_FILES", "list_files": {"path": "/"}})[0] == 404
    status, body = ask({"type": "LIST_FILES"})
    assert (status, b"Expecting 'list_files' to be present" in body) == (400, True)


def test_old_pages_browse_read_and_download() -> None:
    world, one, _ = _world()
    latest = f"/framework/{one.framework_id}/executor/t/latest"
    log = LogPlace(one.name, "task-0")
    world.files.contents[log] = b"words\xff"
    world.files.contents[VolumePlace(volume_name("S0", "r", "v2"), "")] = b""

    def get(page: str, **query: str) -> Response:
        request = Request("GET", page, query={name: [value] for name, value in query.items()})
        return asyncio.run(world.endpoints.handle(request))

    browsed = msgspec.json.decode(get("/slave(S0)/files/browse.json", path=latest).body)
    modes = {each["path"].rpartition("/")[2]: each["mode"] for each in browsed}
    assert modes == {"stdout": "-rw-r--r--", "d": "drwxr-xr-x", "e": "-rw-r--r--"}

    def read(**query: str) -> Any:
        return msgspec.json.decode(get("/files/read", path=f"{latest}/stdout", **query).body)

    assert read() == {"offset": 6, "data": ""}, "without an offset its size is asked for"
    assert read(offset="1", length="3") == {"offset": 1, "data": "ord"}
    assert read(offset="5") == {"offset": 5, "data": "�"}
    assert read(offset="99") == {"offset": 6, "data": ""}
    world.files.contents[log] = b"x" * (2 * MOST_BYTES)
    assert len(read(offset="0", length=str(10 * MOST_BYTES))["data"]) == MOST_BYTES
    assert get("/files/read", path=f"{latest}/stdout", offset="x").status == 400
    assert get("/files/read").body == b"Expecting 'path=value' in query.\n"
    assert get("/files/read", path=latest).status == 400
    assert get("/files/download", path=latest).body == b"Cannot download a directory.\n"
    downloaded = get("/files/download", path=f"{latest}/stdout")
    assert downloaded.headers["Content-Disposition"] == "attachment; filename=stdout"
    assert downloaded.stream is not None
    assert get("/slave(other)/files/browse", path=latest).status == 404
    assert get("/files/debug").body == b"{}"
    assert asyncio.run(world.endpoints.handle(Request("POST", "/files/browse"))).status == 405


def test_files_are_for_those_with_credentials() -> None:
    world, one, _ = _world()
    endpoints = world.endpoints
    endpoints._credentials = {"p": "s"}
    request = Request("GET", "/files/browse", query={"path": [directory_of(one)]})
    assert asyncio.run(endpoints.handle(request)).status == 401


def test_an_agent_says_what_runs_on_it() -> None:
    world, one, many = _world()
    world.agent("S1")

    def ask(node: str, kind: str, **body: Any) -> Any:
        call = {"type": kind, **({kind.lower(): body} if body else {})}
        response = _post(world, f"/slave({node})/api/v1", call, kind="agent")
        assert response.status == 200, response.body
        shown = message("agent.Response").from_json(response.body)
        in_protobuf = message("agent.Response").to_protobuf(shown)
        assert message("agent.Response").from_protobuf(in_protobuf).keys() == shown.keys()
        return shown.get(kind.lower(), {})

    containers = ask("S0", "GET_CONTAINERS")["containers"]
    assert [(each["container_id"]["value"], each["executor_id"]["value"]) for each in containers] == [
        (one.name, "t"), (many.name, "E"),
    ]  # fmt: skip
    nested = ask("S0", "GET_CONTAINERS", show_nested=True)["containers"]
    assert [each["container_id"].get("parent", {}).get("value") for each in nested] == [
        None, None, many.name, many.name,
    ]  # fmt: skip
    assert [each["task_id"]["value"] for each in ask("S0", "GET_TASKS")["launched_tasks"]] == ["t", "a", "b"]
    assert [each["framework_info"]["name"] for each in ask("S0", "GET_FRAMEWORKS")["frameworks"]] == ["n"]
    assert ask("S0", "GET_AGENT")["agent_info"]["id"]["value"] == "S0"
    assert ask("S1", "GET_CONTAINERS") == ask("S1", "GET_EXECUTORS") == ask("S1", "GET_OPERATIONS") == {}
    assert ask("S1", "GET_STATE").keys() == {"get_tasks", "get_executors", "get_frameworks"}
    assert ask("S1", "GET_HEALTH") == {"healthy": True}
    assert ask("S1", "GET_VERSION")["version_info"]["version"] == "1.11.0"
    assert ask("S1", "GET_METRICS")["metrics"]


_READS = ("GET_", "LIST_FILES", "READ_FILE", "SUBSCRIBE")


@pytest.mark.parametrize(("kind", "path"), [("master", "/api/v1"), ("agent", "/slave(S0)/api/v1")])
def test_every_call_is_answered_or_said_not_to_be_supported(kind: str, path: str) -> None:
    """Calls that read need nothing but their name, those on files a path."""
    from strato.interop.mesos.wire.messages import table

    world, _, _ = _world()
    bodies = {"LIST_FILES": {"path": "/x"}, "READ_FILE": {"path": "/x", "offset": 0}}
    statuses = {}
    for name in table().enums[f"{kind}.Call.Type"]:
        call = {"type": name, **({name.lower(): bodies[name]} if name in bodies else {})}
        statuses[name] = _post(world, path, call, kind=kind).status
    reads = {name: status for name, status in statuses.items() if name.startswith(_READS)}
    assert {name: status for name, status in reads.items() if status != (404 if name in bodies else 200)} == {}
    others = {name: status for name, status in statuses.items() if name not in reads}
    allowed = (400,) if kind == "master" else (200, 501)
    assert {name: status for name, status in others.items() if status not in (*allowed, 501)} == {}
