"""The audit log and the identities of a cluster as ``strato up`` and ``strato run apiserver`` open it."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
import yaml

from strato.api import catalog
from strato.cli.apiserver import Api, open_api
from strato.cli.auditing import AuditOptions
from strato.cli.home import Home, node_name
from strato.clock import SystemClock
from strato.metrics import Registry
from strato.server import bootstrap
from tests.cli.test_up import run

POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


async def opened(tmp_path: Path) -> Api:
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({**POLICY, "omitStages": ["RequestReceived"]}))
    audit = AuditOptions(policy_file=str(policy), log_path=str(tmp_path / "audit.log"))
    home = Home(tmp_path / "home")
    return await open_api(
        home, SystemClock(), Random(1), Registry(), host="127.0.0.1", port=0, data_dir=None, audit=audit
    )


async def code(api: Api, path: str, kubeconfig: str = "") -> int:
    """Ask as whom a kubeconfig is of, or as nobody."""
    headers = {}
    if kubeconfig:
        user = yaml.safe_load((api.home.path / kubeconfig).read_text())["users"][0]["user"]
        headers["Authorization"] = f"Bearer {user['token']}"
    tls = ssl.create_default_context(cafile=str(api.home.pki / "ca.crt"))
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as session,
        session.get(api.address + path, headers=headers) as answer,
    ):
        return answer.status


def events(tmp_path: Path) -> list[Any]:
    return [json.loads(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()]


async def test_a_cluster_records_people_and_its_own_parts(tmp_path: Path) -> None:
    api = await opened(tmp_path)
    assert await code(api, "/api/v1/secrets", "kubeconfig.node") == 403
    client = api.client(bootstrap.CONTROLLERS)
    await client.create(catalog.NAMESPACE, {"metadata": {"name": "made"}})
    assert await code(api, "/metrics", "kubeconfig") == 200
    await api.close()
    found = [(event["user"].get("username"), event["responseStatus"]["code"]) for event in events(tmp_path)]
    assert found == [(f"system:node:{node_name()}", 403), ("strato:controllers", 201), ("strato:admin", 200)]


async def test_only_health_and_version_are_open_to_anybody(tmp_path: Path) -> None:
    api = await opened(tmp_path)
    paths = (
        "/livez",
        "/version",
        "/metrics",
        "/api",
        "/apis",
        "/openapi/v2",
        "/api/v1/nodes",
        "/logs",
        "/strato/backup",
    )
    assert [await code(api, path) for path in paths] == [200, 200, 403, 403, 403, 403, 403, 403, 403]
    await api.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--audit-log-path", "x"), "--audit-policy-file and --audit-log-path go together"),
        (("--audit-policy-file", "x"), "--audit-policy-file and --audit-log-path go together"),
        (("--audit-policy-file", "none", "--audit-log-path", "x"), "No such file"),
        (("--audit-log-maxsize", "-1"), "is not in the range"),
    ],
)
@pytest.mark.parametrize("command", [("up",), ("run", "apiserver")])
def test_what_cannot_be_recorded_is_said_before_anything_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...], options: tuple[str, ...], words: str
) -> None:
    status, _, err = run(capfd, "--home", str(tmp_path / "home"), *command, "--port", "0", *options)
    assert status != 0
    assert words in err
    assert not (tmp_path / "home").exists()
