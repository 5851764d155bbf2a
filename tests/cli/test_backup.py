"""Backup, restore and doctor on real files of a real server process."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from strato.api import catalog
from strato.api.core import ConfigMap
from strato.clock import SystemClock
from strato.errors import Forbidden, Gone
from strato.server.encryption import key_id_of
from strato.server.journal.file import JournalFile
from tests.attack.cluster import STRATO, Refused, Server


def strato(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*STRATO, "--home", str(home), *words], text=True, capture_output=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def secret(name: str, text: str) -> dict[str, Any]:
    data = {"password": base64.b64encode(text.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def config_map(name: str, number: int = 1) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(number)}}


def key_file(path: Path, **keys: bytes) -> Path:
    lines = [f"{name}: {base64.b64encode(secret * 32).decode()}" for name, secret in keys.items()]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return path


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    running = Server(tmp_path / "home")
    await running.start()
    yield running
    running.end()


async def test_a_backup_of_a_running_cluster_brings_it_back_elsewhere_with_its_users(
    server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "a.backup"
    async with server.client() as cluster:
        await cluster.create(catalog.CONFIGMAP, config_map("before"), "default")
        done = await asyncio.to_thread(strato, server.home, "backup", str(file))
        assert done.returncode == 0, done.stderr
        assert "checked" in done.stdout
        after = await cluster.create(catalog.CONFIGMAP, config_map("after"), "default")
        reader = server.home / "kubeconfig.view"
        assert strato(server.home, "-k", str(reader), "backup", str(tmp_path / "b")).returncode == 0  # the home's own
    assert file.stat().st_mode & 0o777 == 0o600
    assert list((server.home / "data").glob("*.backup")) == []
    server.stop()

    refused = strato(server.home, "restore", str(file))
    assert refused.returncode == 2
    assert "--force replaces it" in refused.stderr
    other = Server(tmp_path / "other")
    done = strato(other.home, "restore", str(file))
    assert done.returncode == 0, done.stderr
    # the old kubeconfig's token and CA still hold
    assert (other.home / "pki" / "ca.crt").read_bytes() == (server.home / "pki" / "ca.crt").read_bytes()
    assert (other.home / "tokens.json").read_bytes() == (server.home / "tokens.json").read_bytes()
    await other.start()
    try:
        assert await other.stored() == {"before": "1"}
        async with other.client() as cluster:
            handed_out = after["metadata"]["resourceVersion"]
            with pytest.raises(Gone):
                await anext(cluster.watch(ConfigMap, "default", resource_version=handed_out))
            made = await cluster.create(catalog.CONFIGMAP, config_map("new"), "default")
            assert int(made["metadata"]["resourceVersion"]) > int(handed_out)
    finally:
        other.stop()


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
async def test_a_backup_goes_through_a_pipe(server: Server, tmp_path: Path, stopped: bool) -> None:
    async with server.client() as cluster:
        await cluster.create(catalog.CONFIGMAP, config_map("before"), "default")
    if stopped:
        server.stop()
    command = [*STRATO, "--home", str(server.home), "backup", "-"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=120, check=True)
    assert b"standard output: revision" in done.stderr
    other = Server(tmp_path / "other")
    restored = subprocess.run(
        [*STRATO, "--home", str(other.home), "restore", "-"], input=done.stdout, capture_output=True, check=True
    )
    assert restored.stdout.startswith(b"restored ")
    await other.start()
    try:
        assert await other.stored() == {"before": "1"}
    finally:
        other.stop()


def test_a_backup_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place, why in (("file/a.backup", "file: File exists"), (".", "it is a directory"), ("/proc/a", "")):
        done = strato(tmp_path / "home", "backup", str(tmp_path / place))
        assert (done.returncode, "cannot be written: " in done.stderr, why in done.stderr) == (2, True, True), done


async def test_only_an_administrator_may_have_a_backup(server: Server) -> None:
    from strato.client import kubeconfig
    from strato.client.http import HttpCluster

    for who in ("view", "scheduler", "node"):
        path = server.home / f"kubeconfig.{who}"
        cluster = HttpCluster(kubeconfig.load([path]), SystemClock())
        with pytest.raises(Forbidden):
            await cluster.raw("POST", "/strato/backup")
        await cluster.close()


async def test_a_stopped_cluster_is_backed_up_checked_and_replaced_by_force(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "a.backup"
    async with server.client() as cluster:
        await cluster.create(catalog.CONFIGMAP, config_map("kept"), "default")
    server.kill()
    assert strato(server.home, "backup", str(file)).returncode == 0
    assert "give --force" in strato(server.home, "backup", str(file)).stderr
    journal = server.journal
    journal.write_bytes(journal.read_bytes()[:5000])
    with pytest.raises(Refused, match="strato restore"):
        await server.start()
    assert "Traceback" not in server.log.read_text()
    damaged = tmp_path / "damaged.backup"
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    damaged.write_bytes(content)
    refused = strato(server.home, "restore", "--force", str(damaged))
    assert refused.returncode == 1
    assert "damaged" in refused.stderr
    assert "no such file" in strato(server.home, "restore", "--force", str(tmp_path / "none")).stderr
    done = strato(server.home, "restore", "--force", str(file))
    assert done.returncode == 0, done.stderr
    assert (server.home / "data" / "replaced-1" / "journal.sqlite").stat().st_size == 5000
    await server.start()
    assert await server.stored() == {"kept": "1"}
    refused = strato(server.home, "restore", "--force", str(file))
    assert refused.returncode == 2
    assert f"stop it with 'strato --home {server.home} down'" in refused.stderr


async def test_backups_are_written_on_schedule_and_the_oldest_go(tmp_path: Path) -> None:
    where = tmp_path / "backups"
    server = Server(tmp_path / "home", "--backup-dir", str(where), "--backup-every", "1s", "--backup-keep", "2")
    await server.start()
    try:
        seen: set[str] = set()
        async with asyncio.timeout(120):
            while len(seen) < 4:
                await asyncio.sleep(0.1)
                seen |= {one.name for one in where.glob("strato-*.backup")}
    finally:
        server.stop()
    left = sorted(one.name for one in where.glob("strato-*.backup"))
    newest = sorted(seen | set(left))
    assert left in (newest[-2:], newest[-3:])  # it may be stopped just before the oldest goes
    assert strato(tmp_path / "other", "restore", str(where / left[-1])).returncode == 0


async def test_doctor_names_what_is_wrong_and_changes_nothing(server: Server) -> None:
    home = server.home
    done = await asyncio.to_thread(strato, home, "doctor")
    assert done.returncode == 0, done.stdout
    assert "serves at https://" in done.stdout
    async with server.client() as cluster:
        await cluster.create(catalog.CONFIGMAP, config_map("a"), "default")
    server.kill()
    done = strato(home, "doctor")
    assert done.returncode == 0, done.stdout
    assert "every checksum matches" in done.stdout
    (home / "tokens.json").chmod(0o644)
    (home / "pki" / "ca.crt").write_text("no certificate")
    wal = server.journal.with_name("journal.sqlite-wal")
    wal.write_bytes(wal.read_bytes()[:-4120])
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    done = strato(home, "doctor")
    assert done.returncode == 1
    for words in (f"chmod 600 {home}/tokens.json", "ca.crt", "was acknowledged", "strato doctor --salvage"):
        assert words in done.stdout, words
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


async def test_salvage_keeps_what_is_readable_and_the_damaged_files(server: Server) -> None:
    async with server.client() as cluster:
        for number in range(20):
            await cluster.create(catalog.CONFIGMAP, config_map(f"c{number}", number), "default")
    server.kill()
    assert "nothing is damaged" in strato(server.home, "doctor", "--salvage").stdout
    wal = server.journal.with_name("journal.sqlite-wal")
    content = wal.read_bytes()
    wal.write_bytes(content[:-4120])
    done = strato(server.home, "doctor", "--salvage")
    assert done.returncode == 0, done.stderr
    assert "lost (1):\n  the writes after revision" in done.stdout
    assert (server.home / "data" / "damaged-1" / "journal.sqlite-wal").stat().st_size == len(content) - 4120
    await server.start()
    assert await server.stored() == {f"c{number}": str(number) for number in range(19)}


async def test_secrets_are_encrypted_in_journal_and_backup_and_keys_are_replaced(tmp_path: Path) -> None:
    home, keys = tmp_path / "home", tmp_path / "keys"
    plain = Server(home)
    await plain.start()
    async with plain.client() as cluster:
        await cluster.create(catalog.SECRET, secret("early", "written-before-encryption"), "default")
        await cluster.create(catalog.CONFIGMAP, config_map("kept"), "default")
    plain.stop()
    server = Server(home, "--encryption-key-file", str(key_file(keys, one=b"1")))

    async def passwords(running: Server) -> dict[str, str]:
        async with running.client() as cluster:
            found = await cluster.list(catalog.SECRET, "default")
        return {
            one["metadata"]["name"]: base64.b64decode(one["data"]["password"]).decode()
            for one in found.items
            if "password" in one.get("data", {})
        }

    def stored() -> bytes:
        return b"".join(path.read_bytes() for path in (home / "data").iterdir())

    def is_hidden(text: str) -> bool:
        return base64.b64encode(text.encode()) not in stored() and text.encode() not in stored()

    wanted = {"early": "written-before-encryption", "late": "written-under-a-key"}
    await server.start()
    async with server.client() as cluster:
        await cluster.create(catalog.SECRET, secret("late", wanted["late"]), "default")
        assert await passwords(server) == wanted
        assert all(map(is_hidden, wanted.values()))
    file = tmp_path / "a.backup"
    done = await asyncio.to_thread(strato, home, "backup", str(file))
    assert "you need the key one" in done.stdout
    assert base64.b64encode(wanted["late"].encode()) not in file.read_bytes()
    server.kill()

    for other, words in (
        ((), "start with --encryption-key-file"),
        (("--encryption-key-file", str(key_file(tmp_path / "k2", one=b"2"))), "another key of that name"),
        (("--encryption-key-file", str(key_file(tmp_path / "k3", two=b"1"))), "does not have"),
    ):
        wrong = Server(home, *other)
        with pytest.raises(Refused, match=words):
            await wrong.start()
        assert "Traceback" not in wrong.log.read_text()
    key_file(keys, two=b"2", one=b"1")
    await server.start()
    assert await passwords(server) == wanted
    server.stop()
    journal = JournalFile(server.journal)
    ids = {resource: key_id_of(body) for resource, _, _, body in journal.read()}
    journal.close()
    assert (ids["secrets"], ids["configmaps"]) == ("two", None)
    key_file(keys, two=b"2")
    await server.start()
    assert await passwords(server) == wanted
    server.stop()

    restored = Server(tmp_path / "restored", "--encryption-key-file", str(key_file(tmp_path / "k4", one=b"1")))
    assert "key one" in strato(restored.home, "restore", str(file)).stdout
    await restored.start()
    assert await passwords(restored) == wanted
    restored.stop()
    configuration = tmp_path / "encryption.yaml"
    configuration.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n"
        "  providers:\n  - identity: {}\n  - aesgcm:\n      keys:\n"
        f"      - {{name: two, secret: {base64.b64encode(b'2' * 32).decode()}}}\n"
    )
    configuration.chmod(0o600)
    decrypting = Server(home, "--encryption-key-file", str(configuration))
    await decrypting.start()
    decrypting.stop()
    await plain.start()
    assert await passwords(plain) == wanted
    plain.stop()


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        pytest.param("a: xyz\nb: ''\n", 0o600, ["(2 problems)", "a: the key must be 32 bytes", "b: "], id="no keys"),
        pytest.param("", 0o600, ["write lines"], id="empty"),
        pytest.param("a: b", 0o644, ["chmod 600"], id="readable by others"),
        pytest.param("a: [", 0o600, ["is no key file"], id="no YAML"),
        pytest.param(
            "kind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers: [{kms: {}}]\n",
            0o600,
            ["no wildcards", "'kms' is not served here"],
            id="what is not served",
        ),
    ],
)
def test_key_files_that_cannot_be_used_are_refused_with_every_problem(
    tmp_path: Path, text: str, mode: int, words: list[str]
) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(mode)
    done = strato(tmp_path / "home", "run", "apiserver", "--port", "0", "--encryption-key-file", str(path))
    assert done.returncode == 2
    for one in words:
        assert one in done.stderr, done.stderr
    assert not (tmp_path / "home" / "strato.pid").exists() or os.path.getsize(tmp_path / "home" / "strato.pid") == 0
