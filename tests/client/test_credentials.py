from __future__ import annotations

import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from strato.api.core import Pod
from strato.api.wire import Request
from strato.client.config import ClusterConfig, ExecPlugin, Token, TokenFile
from strato.client.credentials import credentials_of
from strato.client.http import HttpCluster, tls_context
from strato.clock import SystemClock, VirtualClock, format_time
from strato.errors import TooManyRequests, Unauthorized, Unavailable, UsageError
from tests.client.fakeserver import FakeServer, http_app


def plugin(tmp_path: Path, script: str) -> ExecPlugin:
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(command=str(path), install_hint="get it from the shop")


def answer(**status: str) -> str:
    body = ",".join(f'"{name}":"{value}"' for name, value in status.items())
    return f"""echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{{body}}}}}'"""


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


async def test_plugin_runs_again_only_when_its_answer_expires(tmp_path: Path) -> None:
    clock = VirtualClock()
    expires = format_time(clock.now() + 100)
    auth = plugin(tmp_path, answer(token="t", expirationTimestamp=expires))
    credentials = credentials_of(ClusterConfig(server="https://x", auth=auth), clock)
    assert (await credentials.current()).token == "t"
    clock.advance(80)
    await credentials.current()
    assert runs(tmp_path) == 1
    clock.advance(15)
    await credentials.current()
    assert runs(tmp_path) == 2
    assert credentials.invalidate()


async def test_plugin_is_told_about_the_cluster(tmp_path: Path) -> None:
    auth = plugin(tmp_path, f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; ' + answer(token="t"))
    config = ClusterConfig(
        server="https://x",
        auth=ExecPlugin(command=auth.command, provide_cluster_info=True, config={"audience": "a"}),
        ca=b"CA",
    )
    await credentials_of(config, VirtualClock()).current()
    info = (tmp_path / "info").read_text()
    for part in ('"server":"https://x"', '"certificate-authority-data":"Q0E="', '"audience":"a"'):
        assert part in info


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("echo no >&2; exit 3", "status 3: no", id="fails"),
        pytest.param("echo hello", "did not print an ExecCredential", id="prints no JSON"),
        pytest.param("""echo '{"kind":"Pod"}'""", "printed Pod", id="prints something else"),
        pytest.param(answer(), "neither a token", id="prints no credential"),
        pytest.param(answer(token="t", expirationTimestamp="soon"), "bad expirationTimestamp", id="bad expiry"),
    ],
)
async def test_bad_plugin_is_named_with_what_it_did(tmp_path: Path, script: str, message: str) -> None:
    credentials = credentials_of(ClusterConfig(server="https://x", auth=plugin(tmp_path, script)), VirtualClock())
    with pytest.raises(Unauthorized, match=message):
        await credentials.current()


async def test_missing_plugin_shows_its_hint() -> None:
    auth = ExecPlugin(command="/nowhere/login", install_hint="get it from the shop")
    with pytest.raises(Unauthorized, match=r"cannot be started.*get it from the shop"):
        await credentials_of(ClusterConfig(server="https://x", auth=auth), VirtualClock()).current()


async def test_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock = VirtualClock()
    path = tmp_path / "token"
    credentials = credentials_of(ClusterConfig(server="https://x", auth=TokenFile(path)), clock)
    with pytest.raises(Unauthorized, match="cannot be read"):
        await credentials.current()
    path.write_text("one\n")
    assert (await credentials.current()).token == "one"
    path.write_text("two")
    assert (await credentials.current()).token == "one"
    clock.advance(61)
    assert (await credentials.current()).token == "two"
    path.unlink()
    clock.advance(61)
    assert (await credentials.current()).token == "two", "while it is being replaced the old one may do"


@pytest.fixture
async def address(server: FakeServer) -> AsyncIterator[str]:
    runner = web.AppRunner(http_app(server), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


async def test_refused_token_is_read_again_at_once(server: FakeServer, address: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    handle = server.handle

    async def check(request: Request):
        if request.headers.get("authorization") != "Bearer new":
            path.write_text("new")
            server.fail_next("any", 401, "Unauthorized")
        return await handle(request)

    server.handle = check  # type: ignore[method-assign]  # a double
    cluster = HttpCluster(ClusterConfig(server=address, auth=TokenFile(path)), SystemClock())
    assert (await cluster.list(Pod)).items == []
    await cluster.close()
    fixed = HttpCluster(ClusterConfig(server=address, auth=Token("bad")), SystemClock())
    with pytest.raises(Unauthorized):
        await fixed.list(Pod)
    await fixed.close()


async def test_overloaded_server_is_asked_again_when_it_says_when(server: FakeServer, address: str) -> None:
    cluster = HttpCluster(ClusterConfig(server=address), SystemClock())
    server.fail_next("list", 429, "TooManyRequests", retry_after=0)
    assert (await cluster.list(Pod)).items == []
    server.fail_next("list", 429, "TooManyRequests")
    with pytest.raises(TooManyRequests):
        await cluster.list(Pod)
    await cluster.close()


async def test_component_is_told_at_once_how_long_an_overloaded_server_wants_it_to_wait(
    server: FakeServer, address: str
) -> None:
    cluster = HttpCluster(ClusterConfig(server=address), SystemClock(), overload_retries=0)
    server.fail_next("list", 429, "TooManyRequests", retry_after=1000)
    with pytest.raises(TooManyRequests) as refused:
        await cluster.list(Pod)
    assert refused.value.retry_after_seconds == 1000
    await cluster.close()


async def test_read_on_a_dead_connection_is_sent_again(server: FakeServer, address: str) -> None:
    cluster = HttpCluster(ClusterConfig(server=address), SystemClock())
    server.break_next("list")
    assert (await cluster.list(Pod)).items == []
    await cluster.close()


async def test_impersonation_is_sent(server: FakeServer, address: str) -> None:
    config = ClusterConfig(server=address, impersonate_user="jane", impersonate_groups=("dev", "ops"))
    cluster = HttpCluster(config, SystemClock())
    await cluster.list(Pod)
    assert server.requests[-1].headers["impersonate-user"] == "jane"
    assert "impersonate-group" in server.requests[-1].headers
    await cluster.close()


async def test_server_that_is_not_there_is_unavailable() -> None:
    cluster = HttpCluster(ClusterConfig(server="http://127.0.0.1:1"), SystemClock())
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        await cluster.list(Pod)
    await cluster.close()


def test_tls_checks_the_name_unless_told_otherwise() -> None:
    assert tls_context(ClusterConfig(server="https://x"), None).check_hostname
    lax = tls_context(ClusterConfig(server="https://x", insecure_skip_tls_verify=True), None)
    assert lax.verify_mode is ssl.CERT_NONE
    with pytest.raises(UsageError, match="is not PEM"):
        tls_context(ClusterConfig(server="https://x", ca=b"junk"), None)
    with pytest.raises(UsageError, match="is not PEM"):
        tls_context(ClusterConfig(server="https://x", ca=b"junk", insecure_skip_tls_verify=True), None)
