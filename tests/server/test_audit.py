"""The audit log: which requests are in it, how much of them, and what never is."""

from __future__ import annotations

import asyncio
import json
import os
import random
import stat
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from strato.api.wire import Request, User
from strato.clock import VirtualClock
from strato.errors import UsageError
from strato.http import listen
from strato.http.server import Connections
from strato.server import bootstrap, http
from strato.server.audit.events import Body
from strato.server.audit.log import AuditLog
from strato.server.audit.policy import AuditLevel, load
from strato.server.audit.service import AuditedHandler, AuditedService, Auditor, decode
from strato.server.auth.accounts import AccountTokens
from strato.server.auth.identity import Authenticator
from strato.server.auth.impersonation import impersonated
from strato.server.auth.tokens import Tokens
from strato.server.embedded import open_server
from strato.server.path import Attributes

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
JANE = User("jane", ("dev", "system:authenticated"))
POD = Attributes("get", "", "pods", "", "default", "p")
LOG = Attributes("get", "", "pods", "log", "default", "p")
SCALE = Attributes("patch", "apps", "deployments", "scale", "default", "d")
METRICS = Attributes("get", path="/metrics")


def policy_file(tmp_path: Path, *rules: dict[str, Any], **more: Any) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}))
    return path


RULES: list[Any] = [
    ({"level": "Metadata"}, POD, True),
    ({"level": "None"}, POD, False),
    ({"level": "Metadata", "users": ["jane"]}, POD, True),
    ({"level": "Metadata", "users": ["joe"]}, POD, False),
    ({"level": "Metadata", "userGroups": ["ops", "dev"]}, POD, True),
    ({"level": "Metadata", "userGroups": ["ops"]}, POD, False),
    ({"level": "Metadata", "verbs": ["get"]}, POD, True),
    ({"level": "Metadata", "verbs": ["list"]}, POD, False),
    ({"level": "Metadata", "namespaces": ["default"]}, POD, True),
    ({"level": "Metadata", "namespaces": [""]}, POD, False),
    ({"level": "Metadata", "namespaces": ["default"]}, METRICS, False),
    ({"level": "Metadata", "resources": [{"group": ""}]}, LOG, True),
    ({"level": "Metadata", "resources": [{"group": "apps"}]}, POD, False),
    ({"level": "Metadata", "resources": [{"group": "*", "resources": ["pods"]}]}, POD, True),
    ({"level": "Metadata", "resources": [{"resources": ["pods"]}]}, LOG, False),
    ({"level": "Metadata", "resources": [{"resources": ["pods/log"]}]}, LOG, True),
    ({"level": "Metadata", "resources": [{"resources": ["pods/*"]}]}, LOG, True),
    ({"level": "Metadata", "resources": [{"group": "apps", "resources": ["*/scale"]}]}, SCALE, True),
    ({"level": "Metadata", "resources": [{"group": "apps", "resources": ["*"]}]}, SCALE, True),
    ({"level": "Metadata", "resources": [{"resources": ["pods"], "resourceNames": ["p"]}]}, POD, True),
    ({"level": "Metadata", "resources": [{"resources": ["pods"], "resourceNames": ["q"]}]}, POD, False),
    ({"level": "Metadata", "nonResourceURLs": ["/metrics"]}, METRICS, True),
    ({"level": "Metadata", "nonResourceURLs": ["/met*"]}, METRICS, True),
    ({"level": "Metadata", "nonResourceURLs": ["/healthz*"]}, METRICS, False),
    ({"level": "Metadata", "nonResourceURLs": ["*"]}, POD, False),
]


@pytest.mark.parametrize(("rule", "asked", "want"), RULES)
def test_a_rule_matches(tmp_path: Path, rule: dict[str, Any], asked: Attributes, want: bool) -> None:
    assert (load(policy_file(tmp_path, rule)).decide(JANE, asked).level > AuditLevel.NONE) is want


def test_the_first_rule_that_matches_decides(tmp_path: Path) -> None:
    rules = {"level": "None", "verbs": ["get"]}, {"level": "Request", "omitStages": ["RequestReceived"]}
    policy = load(policy_file(tmp_path, *rules, omitStages=["ResponseStarted"]))
    assert policy.decide(JANE, POD).level == AuditLevel.NONE
    decided = policy.decide(JANE, SCALE)
    assert decided == (AuditLevel.REQUEST, {"RequestReceived", "ResponseStarted"})


SECRET, CONFIG = Attributes("create", "", "secrets"), Attributes("create", "", "configmaps")
CUT: list[Any] = [
    ({"level": "Request"}, SECRET, AuditLevel.METADATA),
    ({"level": "RequestResponse", "resources": [{"resources": ["secrets"]}]}, SECRET, AuditLevel.METADATA),
    ({"level": "Request"}, Attributes("create", "", "serviceaccounts", "token"), AuditLevel.METADATA),
    ({"level": "Request"}, Attributes("create", "authentication.k8s.io", "tokenreviews"), AuditLevel.METADATA),
    ({"level": "Request"}, CONFIG, AuditLevel.METADATA),
    ({"level": "Request", "resources": [{"resources": ["configmaps"]}]}, CONFIG, AuditLevel.REQUEST),
    ({"level": "RequestResponse"}, POD, AuditLevel.REQUEST),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "asked", "want"), CUT)
def test_bodies_with_secrets_are_cut(tmp_path: Path, rule: dict[str, Any], asked: Attributes, want: AuditLevel) -> None:
    assert load(policy_file(tmp_path, rule)).decide(JANE, asked).level == want


def test_all_that_is_wrong_with_a_policy_is_said_at_once(tmp_path: Path) -> None:
    path = policy_file(
        tmp_path,
        {"level": "Everything"},
        {"level": "None", "nonResourceURLs": ["metrics", "/a*b"], "namespaces": ["x"]},
        {"level": "None", "omitStages": ["Never"], "resources": [{"group": "apps/v1", "resourceNames": ["x"]}]},
        kind="Rules",
    )
    with pytest.raises(UsageError) as refused:
        load(path)
    text = str(refused.value)
    assert "(8 problems)" in text
    for words in ("rules[0].level = 'Everything'", "must begin with a '/'", "final character", "allowed stages"):
        assert words in text


@pytest.mark.parametrize("content", ["", "x", "[1]", "rules: 7", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrule: []"])
def test_what_is_no_policy_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match="no audit policy"):
        load(path)
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "none")


class World:
    """A server that listens, with an audit log."""

    def __init__(self, tmp_path: Path, *rules: dict[str, Any]) -> None:
        clock, self.tokens = VirtualClock(), Tokens()
        self.tokens.ensure((bootstrap.ADMIN, bootstrap.VIEWER))
        authenticator = Authenticator(self.tokens, accounts=AccountTokens(None, clock))
        self.server, _ = open_server(
            clock, random.Random(1), None, rbac=True, bootstrap=bootstrap.objects(), tokens=authenticator
        )
        self.path = tmp_path / "logs" / "audit.log"
        self.log = AuditLog(str(self.path), clock, decode)
        self.auditor = Auditor(load(policy_file(tmp_path, *rules)), self.log, clock, self.server.authorizer)
        impersonate = partial(impersonated, authorizer=self.server.authorizer)
        app = http.create_app(
            self.server, authenticator, authorize_path=self.server.authorize_path, impersonate=impersonate
        )
        self.service = AuditedService(app, self.auditor)

    async def ask(self, *asks: tuple[str, str, Any], user: str = "strato:admin", **headers: str) -> list[Any]:
        """Ask over HTTP; return codes and the ids in the answers."""
        listening = await listen.serve(self.service)
        found = []
        sent = {"Authorization": f"Bearer {self.tokens.token(user)}", "User-Agent": "test/1", **headers}
        async with aiohttp.ClientSession(f"http://127.0.0.1:{listening.port}") as session:
            for method, path, body in asks:
                data = None if body is None else json.dumps(body)
                media = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
                async with session.request(method, path, data=data, headers={**sent, **media}) as answer:
                    if "watch" in path:
                        await answer.content.readany()
                    found.append((answer.status, answer.headers.get("Audit-Id")))
        await listening.stop()
        return found

    def events(self) -> list[Any]:
        """End the log and return what is in it."""
        self.log.close()
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


async def test_a_request_is_recorded_when_it_comes_and_when_it_is_answered(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Request", "resources": [{"resources": ["configmaps"]}]}, {"level": "None"})
    body = {"metadata": {"name": "m"}, "data": {"k": "v\nw"}}
    [(code, audit_id)] = await world.ask(("POST", f"{MAPS}?fieldManager=x&token=hidden", body))
    received, complete = world.events()
    assert (code, audit_id) == (201, complete["auditID"])
    assert received["auditID"] == audit_id
    assert "responseStatus" not in received
    assert "requestObject" not in received
    uid = complete["objectRef"].pop("uid")
    times = [complete.pop(name) for name in ("requestReceivedTimestamp", "stageTimestamp")]
    assert uid
    assert all(times)
    assert complete == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "requestURI": f"{MAPS}?fieldManager=x&token=MASKED",
        "verb": "create",
        "user": {"username": "strato:admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": "test/1",
        "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1", "name": "m"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestObject": body,
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600


async def test_refusals_and_their_reasons_are_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata", "omitStages": ["RequestReceived"]})
    await world.ask(("GET", SECRETS, None), ("GET", "/metrics", None), ("GET", "/api", None), user="strato:view")
    secrets, metrics, api = world.events()
    assert secrets["responseStatus"]["code"] == 403
    assert secrets["responseStatus"]["reason"] == "Forbidden"
    assert secrets["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert metrics["requestURI"] == "/metrics"
    assert "objectRef" not in metrics
    assert metrics["responseStatus"]["message"].endswith('cannot get path "/metrics"')
    reason = 'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group '
    assert api["annotations"]["authorization.k8s.io/reason"].startswith(reason)


MIB = 1 << 20
TOO_LARGE, UNFINISHED = b"Content-Length: %d\r\n\r\n" % (4 * MIB), b"Content-Length: 100\r\n\r\n{"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
ENDINGS: list[Any] = [
    pytest.param(TOO_LARGE, False, 413, "RequestEntityTooLarge", id="too large, as announced"),
    pytest.param(
        CHUNKED + (b"%x\r\n%b\r\n" % (MIB, b" " * MIB)) * 4, False, 413, "RequestEntityTooLarge", id="too large"
    ),
    pytest.param(CHUNKED + b"1\r\n{\r\nno chunk\r\n", False, 400, None, id="malformed"),
    pytest.param(UNFINISHED, True, 500, "", id="cut off"),
    pytest.param(CHUNKED + b"1\r\n{\r\n", True, 500, "", id="cut off in chunks"),
    pytest.param(b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", True, 500, "", id="cut off before the body"),
]


@pytest.mark.parametrize(("rest", "leaves", "code", "reason"), ENDINGS)
async def test_requests_that_never_reach_a_handler_are_recorded(
    tmp_path: Path, rest: bytes, leaves: bool, code: int, reason: str | None
) -> None:
    world = World(tmp_path, {"level": "Request"})
    listening = await listen.serve(world.service)
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    writer.write(b"POST %b HTTP/1.1\r\nHost: h\r\n" % MAPS.encode())
    writer.write(b"Authorization: Bearer %b\r\n" % world.tokens.token("strato:admin").encode())
    writer.write(rest)
    answer = b""
    if not leaves:
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" %d " % code in answer.partition(b"\r\n")[0]
    await writer.drain()
    while leaves and not any(one.owner for one in listening.connections.open):
        await asyncio.sleep(0)  # until the head was read: what never arrived is not recorded
    writer.close()
    await listening.stop()
    received, complete = world.events()
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert complete["verb"] == "create"
    assert complete["user"]["username"] == "strato:admin"
    assert complete["responseStatus"]["code"] == code
    assert complete["responseStatus"].get("reason") == reason
    assert leaves or complete["auditID"].encode() in answer


async def test_what_is_no_request_or_of_nobody_is_not_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata"})
    listening = await listen.serve(world.service)
    for sent in (b"hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET /api HTTP/1.1\r\nHost: h\r\nX: "):
        _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
        writer.write(sent)
        writer.close()
    await listening.stop()
    assert world.events() == []


async def test_a_user_with_too_many_connections_is_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata", "omitStages": ["RequestReceived"]})
    connections = Connections(world.service, VirtualClock(), most=8)
    listening = await asyncio.get_running_loop().create_server(connections.make, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    writers = []
    for _ in range(4):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        token = world.tokens.token("strato:admin").encode()
        writer.write(b"GET %b HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %b\r\n\r\n" % (MAPS.encode(), token))
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
    for writer in writers:
        writer.close()
    listening.close()
    await connections.close(1.0)
    assert sorted(event["responseStatus"]["code"] for event in world.events()) == [200, 200, 429, 429]


async def test_failed_logins_are_recorded_without_the_token(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata"})
    [(code, _)] = await world.ask(("GET", MAPS, None), Authorization="Bearer stolen-token")
    assert code == 401
    received, complete = world.events()
    assert received["user"] == {}
    assert complete["responseStatus"]["code"] == 401
    assert b"stolen-token" not in world.path.read_bytes()


async def test_who_acts_as_whom_is_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata", "users": ["strato:admin"], "omitStages": ["RequestReceived"]})
    await world.ask(("GET", MAPS, None), **{"Impersonate-User": "bob"})
    [event] = world.events()
    assert event["user"]["username"] == "strato:admin"
    assert event["impersonatedUser"]["username"] == "bob"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"


async def test_a_watch_is_recorded_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata", "verbs": ["watch"]})
    await world.ask(("POST", MAPS, {"metadata": {"name": "m"}}), ("GET", f"{MAPS}?watch=true&resourceVersion=0", None))
    assert [event["stage"] for event in world.events()] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]


async def test_no_secret_is_in_the_log(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "RequestResponse"})
    body = {"metadata": {"name": "s"}, "stringData": {"k": "hush-hush"}}
    bad = {"metadata": {"name": "t"}, "data": {"k": "hush-hush!"}, "type": "hush-hush/../"}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await world.ask(
        ("POST", SECRETS, body),
        ("POST", SECRETS, bad),
        ("PATCH", f"{SECRETS}/s", {"stringData": {"k": "hush-hush"}}),
        ("PUT", f"{SECRETS}/s", body),
        ("GET", f"{SECRETS}/s", None),
        ("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "hush-hush"}}),
        ("POST", accounts, {"metadata": {"name": "robot"}}),
        ("POST", f"{accounts}/robot/token", {"spec": {}}),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "hush-hush"}}),
        ("GET", f"{MAPS}?access_token=hush-hush", None),
        **{"Cookie": "hush-hush", "X-Api-Key": "hush-hush"},
    )
    assert len(world.events()) == 20
    content = world.path.read_bytes()
    assert b"hush-hush" not in content
    assert b"eyJ" not in content, "a JSON Web Token begins so"
    assert world.tokens.token("strato:admin").encode() not in content


async def test_the_clusters_own_parts_are_recorded_too(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Request", "omitStages": ["RequestReceived"]})
    handler = AuditedHandler(world.server, world.auditor)
    body = b'{"metadata":{"name":"n"}}'
    asked = [Request("POST", "/api/v1/namespaces", {}, {}, body, bootstrap.CONTROLLERS, uncommitted=True)] * 2
    await handler.handle(asked[0])
    await handler.handle_all(asked)
    events = world.events()
    assert [event["responseStatus"]["code"] for event in events] == [201, 409, 409]
    assert {event["user"]["username"] for event in events} == {"strato:controllers"}
    assert events[0]["annotations"]["authorization.k8s.io/reason"].startswith("RBAC: allowed by ClusterRoleBinding")


async def test_annotations_of_admission_are_recorded(tmp_path: Path) -> None:
    world = World(tmp_path, {"level": "Metadata", "omitStages": ["RequestReceived"]})
    space = {"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/audit": "restricted"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await world.ask(("POST", "/api/v1/namespaces", space), ("POST", "/api/v1/namespaces/n/pods", pod))
    annotations = world.events()[-1]["annotations"]
    assert any(key.startswith("pod-security.kubernetes.io/") for key in annotations)


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("accepted", [True, False])
def test_bodies_become_objects(size: int, accepted: bool) -> None:
    value = {"a": "x" * size, "b": ["\n"]}
    decoded = decode(Body(json.dumps(value, indent=2).encode(), "application/json", accepted))
    if size > 65536 and not accepted:
        assert decoded is None
    else:
        assert json.loads(bytes(decoded) if size > 65536 else json.dumps(decoded)) == value
    assert decode(Body(b"a: [1, 2]\n", "application/yaml")) == {"a": [1, 2]}
    assert decode(Body(b"{", "application/json")) is None
    assert decode(Body(b"\x00", "application/x-unknown")) is None


def written(log: AuditLog, count: int, **event: Any) -> None:
    for number in range(count):
        log.put({"auditID": str(number), **event})


def test_files_are_rotated_by_size_and_kept_by_number_and_age(tmp_path: Path) -> None:
    clock, path = VirtualClock(), tmp_path / "audit.log"
    (tmp_path / "audit-mine.log").write_text("stays")
    for _ in range(6):
        log = AuditLog(str(path), clock, decode, max_backups=3, max_megabytes=1)
        written(log, 3000, filler="x" * 1000)
        log.close()
        clock.advance(86400)
    backups = sorted(tmp_path.glob("audit-2*.log"))
    assert len(backups) == 3
    assert all(one.stat().st_size <= 1_000_000 for one in (*backups, path))
    assert {stat.S_IMODE(one.stat().st_mode) for one in (*backups, path)} == {0o600}
    assert all(json.loads(line) for one in (*backups, path) for line in one.read_bytes().splitlines())
    clock.advance(10 * 86400)
    log = AuditLog(str(path), clock, decode, max_age_days=2, max_megabytes=1)
    written(log, 1200, filler="x" * 1000)
    log.close()
    assert not set(backups) & set(tmp_path.glob("*.log"))
    assert (tmp_path / "audit-mine.log").exists()


def test_what_does_not_fit_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, append = threading.Event(), AuditLog._append

    def slow(self: AuditLog, data: bytes) -> None:
        gate.wait()
        append(self, data)

    monkeypatch.setattr(AuditLog, "_append", slow)
    log = AuditLog(str(tmp_path / "a.log"), VirtualClock(), decode)
    written(log, 30_000)
    assert log.events == 30_000
    assert log.dropped >= 30_000 - 10_000 - 256
    assert {sample.name: sample.value for sample in log.samples()}["apiserver_audit_error_total"] == log.dropped
    gate.set()
    log.close()
    lines = (tmp_path / "a.log").read_bytes().splitlines()
    assert len(lines) == log.events - log.dropped
    big = Body(b"x" * (40 << 20), "application/json")
    gate.clear()
    log = AuditLog(str(tmp_path / "b.log"), VirtualClock(), decode)
    written(log, 20, requestObject=big)
    assert log.dropped >= 15
    gate.set()
    log.close()


def test_a_full_disk_loses_events_and_no_half_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write: Callable[..., int] = os.write
    budget = [1000]

    def full(file: int, data: Any) -> int:
        if budget[0] <= 0:
            raise OSError(28, "No space left on device")
        data = bytes(data)[: budget[0]]
        budget[0] -= len(data)
        return write(file, data)

    monkeypatch.setattr("strato.server.audit.log.os.write", full)
    log = AuditLog(str(tmp_path / "a.log"), VirtualClock(), decode)
    written(log, 300, filler="x" * 50)
    log.close()
    assert log.dropped > 0
    lines = (tmp_path / "a.log").read_bytes()
    assert len(lines.splitlines()) == 300 - log.dropped
    assert not lines or lines.endswith(b"\n")


def test_one_event_that_cannot_be_written_loses_no_other(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "a.log"), VirtualClock(), decode)
    written(log, 1, bad="\ud800")
    written(log, 1)
    log.close()
    assert log.dropped == 1
    assert len((tmp_path / "a.log").read_bytes().splitlines()) == 1


def test_a_path_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--audit-log-path"):
        AuditLog(str(tmp_path / "file" / "a.log"), VirtualClock(), decode)
