"""What the commands about streams make of their words, and of archives that pods send."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from strato.cli import cp
from strato.cli.podtargets import container_of, find_pod
from strato.cli.portforward import _pair
from strato.client.http import HttpCluster
from strato.client.local import LocalCluster
from strato.client.remotecommand import CommandFailed, _exit_code
from strato.clock import SystemClock
from strato.errors import InternalError, NotFound, UsageError
from strato.server.embedded import in_memory_server
from tests.server.asking import ADMIN, Client


def pod_of(name: str = "p", **spec: Any) -> Any:
    containers = [{"name": "a", "ports": [{"name": "web", "containerPort": 8000}]}, {"name": "b"}]
    return {"metadata": {"name": name, "annotations": {}}, "spec": {"containers": containers, **spec}}


SERVICE = {
    "metadata": {"name": "s"},
    "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "web"}, {"port": 443, "targetPort": 8443}]},
}


@pytest.mark.parametrize(
    ("text", "service", "want"),
    [
        ("8080:80", None, (8080, 80)),
        ("80", None, (80, 80)),
        (":80", None, (0, 80)),
        ("web", None, (8000, 8000)),
        ("9000:web", None, (9000, 8000)),
        ("80", SERVICE, (80, 8000)),
        ("9000:http", SERVICE, (9000, 8000)),
        (":443", SERVICE, (0, 8443)),
    ],
)
def test_a_word_names_two_ports(text: str, service: Any, want: tuple[int, int]) -> None:
    assert _pair(text, pod_of(), service) == want


@pytest.mark.parametrize(
    ("text", "service", "words"),
    [
        ("0", None, "write a number from 1 to 65535; its ports with names are web"),
        ("80:99999", None, "'99999' is no port of pod p"),
        ("x:80", None, "'x' is no port of this machine"),
        ("99999:80", None, "no port of this machine"),
        ("81", SERVICE, "has no port '81'; it has 80, 443"),
    ],
)
def test_a_word_that_names_no_port_is_refused(text: str, service: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        _pair(text, pod_of(), service)


def test_the_container_is_the_named_the_default_or_the_first_one() -> None:
    pod = pod_of()
    assert container_of(pod, "b") == "b"
    assert container_of(pod, "") == "a"
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "b"}
    assert container_of(pod, "") == "b"
    with pytest.raises(UsageError, match="it has a, b"):
        container_of(pod, "c")


async def test_a_job_means_its_first_pod_that_runs() -> None:
    server = in_memory_server(SystemClock())
    client, cluster = Client(server), LocalCluster(server, ADMIN)
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {}}}]},
    }
    job["spec"]["tasks"][0]["template"]["spec"] = {"containers": [{"name": "c", "image": "i"}]}  # type: ignore[index]  # it is a map
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    await client.ask("POST", "/apis/scheduling.volcano.sh/v1beta1/queues", queue)
    await client.ask("POST", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs", job)
    with pytest.raises(UsageError, match=r"has no pod that runs: it is Pending; see 'strato explain job/j'"):
        await find_pod(cluster, "default", "job/j")
    with pytest.raises(NotFound, match=r'^pods "j" not found; a job has this name: write job/j$'):
        await find_pod(cluster, "default", "j")
    with pytest.raises(NotFound, match=r'^pods "none" not found$'):
        await find_pod(cluster, "default", "none")
    path = "/api/v1/namespaces/default/pods"
    for name, phase, ready in (("j-0", "Succeeded", "True"), ("j-1", "Running", "False"), ("j-2", "Running", "True")):
        labels = {"volcano.sh/job-name": "j", "app": "x"}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await client.ask("POST", path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        status = {"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}
        await client.ask("PATCH", f"{path}/{name}/status", status, "application/merge-patch+json")
    for target in ("job/j", "vcjob/j", "j-2", "pod/j-2"):
        assert (await find_pod(cluster, "default", target))["metadata"]["name"] == "j-2"
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}}
    await client.ask("POST", "/api/v1/namespaces/default/services", service)
    assert (await find_pod(cluster, "default", "svc/s", services=True))["metadata"]["name"] == "j-2"
    with pytest.raises(UsageError, match="write a pod's name"):
        await find_pod(cluster, "default", "svc/s")
    with pytest.raises(NotFound):
        await find_pod(cluster, "default", "job/none")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (b'{"status":"Success"}', 0),
        (b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"42"}]}}', 42),
    ],
)
def test_the_exit_code_is_the_commands(status: bytes, code: int) -> None:
    assert _exit_code(status) == code


@pytest.mark.parametrize(
    "status",
    [b"", b"no", b"[]", b'{"status":"Failure","message":"why"}', b'{"details":{"causes":[{"reason":"ExitCode"}]}}'],
)
def test_what_tells_no_exit_code_is_a_failure(status: bytes) -> None:
    with pytest.raises(CommandFailed):
        _exit_code(status)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("p:/a", ("p", "/a")),
        ("job/j:a", ("job/j", "a")),
        ("./p:/a", ("", "./p:/a")),
        ("/tmp/x", ("", "/tmp/x")),
        ("x", ("", "x")),
        ("p:", ("p", "")),
    ],
)
def test_what_has_a_colon_is_in_a_container(text: str, want: tuple[str, str]) -> None:
    assert cp._split(text) == want


def archive(*entries: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for entry in entries:
            entry.size = 2 if entry.isreg() else 0
            made.addfile(entry, io.BytesIO(b"no") if entry.isreg() else None)
    return buffer.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, 0o4755
    return made


def unpack(data: bytes, target: Path) -> None:
    reading, writing = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(writing, data), os.close(writing)))
    thread.start()
    try:
        cp._unpack(reading, "d", target)
    finally:
        thread.join()


def test_an_archive_of_a_pod_is_written_below_its_target_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links are not made, so that no later entry can go through one; set-user-id bits are dropped."""
    target = tmp_path / "in" / "d"
    target.parent.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("kept")
    unpack(
        archive(
            entry("d", tarfile.DIRTYPE),
            entry("d/a"),
            entry("d/l", tarfile.SYMTYPE, str(tmp_path)),
            entry("d/h", tarfile.LNKTYPE, str(secret)),
            entry("d/n", tarfile.CHRTYPE),
            entry("/d/b"),
            entry("other/c"),
        ),
        target,
    )
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert found == {"a", "b", "other/c"}
    assert (target / "a").stat().st_mode & 0o7777 == 0o755
    assert secret.read_text() == "kept"
    assert capsys.readouterr().err.count("left out") == 3
    with pytest.raises(cp.CopyFailed, match="leads out"):
        unpack(archive(entry("d/../../secret")), target)
    assert secret.read_text() == "kept"


class Shell(cp._Place):
    """A container that is this machine, without tar if so wanted."""

    async def run(self, command: Any, stdin: Any, out: Any) -> tuple[int, str]:

        if command[0] == "tar" and not self.container:
            raise InternalError('error executing command in container: exec: "tar": executable file not found in $PATH')
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        data = b"".join([chunk async for chunk in stdin]) if stdin is not None else b""
        stdout, stderr = await process.communicate(data)
        if stdout:
            out(stdout)
        return process.returncode or 0, stderr.decode()


@pytest.mark.parametrize("has_tar", ["yes", ""])
async def test_files_and_folders_are_copied_with_and_without_tar(tmp_path: Path, has_tar: str) -> None:
    cluster: HttpCluster = None  # type: ignore[assignment] # never asked
    place = Shell(cluster, "default", "p", has_tar)
    source, there = tmp_path / "src", tmp_path / "there"
    (source / "sub dir").mkdir(parents=True)
    there.mkdir()
    (source / "a").write_bytes(bytes(100_000))
    (source / "sub dir" / "b;$x").write_text("2")
    (source / "sub dir" / "b;$x").chmod(0o750)
    (source / "link").symlink_to("/etc/passwd")
    await cp._upload(place, source, str(there))
    await cp._upload(place, source / "a", str(there / "renamed"))
    found = {path.relative_to(there).as_posix() for path in there.rglob("*") if not path.is_dir()}
    assert found == {"src/a", "src/sub dir/b;$x", "renamed"}
    assert (there / "renamed").stat().st_size == 100_000
    assert (there / "src" / "sub dir" / "b;$x").stat().st_mode & 0o777 == 0o750
    await cp._download(place, str(there / "renamed"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == bytes(100_000)
    with pytest.raises(cp.CopyFailed, match="none"):
        await cp._download(place, str(there / "none"), tmp_path / "x")
    assert not (tmp_path / "x").exists()
    if has_tar:
        await cp._download(place, str(there / "src"), tmp_path / "again")
        assert (tmp_path / "again" / "sub dir" / "b;$x").read_text() == "2"
    else:
        with pytest.raises(cp.CopyFailed, match="has no tar"):
            await cp._download(place, str(there / "src"), tmp_path / "again")
