"""exec, attach, cp and port-forward with stock kubectl and with our own command line, on real pods."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.worlds import STRATO, EmbeddedWorld, eventually, free_port

pytestmark = [pytest.mark.e2e, pytest.mark.embedded, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """A cluster with a web server, a shell with a terminal, and a job of two."""
    cluster = EmbeddedWorld(tmp_path_factory.mktemp("streams") / "home", "--cpus", "16")
    cluster.start()
    serve = "mkdir /tmp/web; cd /tmp/web; echo served by $HOSTNAME > name; exec python3 -m http.server 8000"
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod("web", serve, labels={"app": "web"}, port=8000)))
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod("term", "exec sh", stdin=True, tty=True)))
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps({**service, "spec": spec}))
    cluster.own("job", "run", "-N", "work", "-i", "strato/host", "-c", "sleep 3600", "-r", "2", "-m", "2")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/web", "pod/term", "--timeout=120s")
    eventually(lambda: cluster.job_phase("work") == "Running", what="the job runs")
    yield cluster
    cluster.stop()


def pod(name: str, script: str, *, labels: dict[str, str] | None = None, port: int = 0, **container: Any) -> Any:
    ports = {"ports": [{"name": "http", "containerPort": port}]} if port else {}
    main = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script], **ports, **container}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def clients(world: EmbeddedWorld) -> dict[str, list[str]]:
    return {"kubectl": ["kubectl"], "strato": [*STRATO, "-k", str(world.kubeconfig)]}


def run(world: EmbeddedWorld, client: str, *args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}
    command = [*clients(world)[client], *args]
    return subprocess.run(command, input=stdin, capture_output=True, env=env, timeout=300, check=False)


BOTH = pytest.mark.parametrize("client", ["kubectl", "strato"])


@BOTH
def test_a_command_has_streams_and_its_exit_code_is_the_clients(world: EmbeddedWorld, client: str) -> None:
    done = run(world, client, "exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert done.returncode == 7, done.stderr
    assert done.stdout == b"out\n"
    assert b"err\n" in done.stderr
    assert run(world, client, "exec", "-i", "web", "--", "cat", stdin=b"typed").stdout == b"typed"


@BOTH
def test_what_cannot_be_run_is_said_in_a_line(world: EmbeddedWorld, client: str) -> None:
    done = run(world, client, "exec", "web", "--", "no-such-program")
    assert done.returncode == 1
    assert b'"no-such-program": executable file not found in $PATH' in done.stderr
    done = run(world, client, "exec", "nobody", "--", "ls")
    assert done.returncode == 1
    assert b'pods "nobody" not found' in done.stderr


def on_a_terminal(world: EmbeddedWorld, client: str, *args: str, types: tuple[tuple[str, str], ...]) -> tuple[int, str]:
    """Run a client on a terminal of 37 lines and 101 columns; type each text when a pattern is seen."""
    command = [*clients(world)[client], *args]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["KUBECONFIG"] = str(world.kubeconfig)
        subprocess.run(["stty", "rows", "37", "cols", "101"], check=False)
        os.execvp(command[0], command)
    seen, deadline = "", time.monotonic() + 120
    waiting = list(types)
    while time.monotonic() < deadline:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # EIO: it has ended
            break
        seen += data.decode(errors="replace")
        if waiting and re.search(waiting[0][0], seen):
            os.write(terminal, waiting.pop(0)[1].encode())
    status = os.waitpid(pid, 0)[1]
    os.close(terminal)
    assert not waiting, seen
    return os.waitstatus_to_exitcode(status), seen


SHELL = ((r"[#$] ", "tty; stty size; echo do''ne\n"), (r"done\r\n", "exit 5\n"))


@BOTH
def test_a_shell_has_a_terminal_of_the_clients_size(world: EmbeddedWorld, client: str) -> None:
    code, seen = on_a_terminal(world, client, "exec", "-it", "web", "--", "sh", types=SHELL)
    assert code == 5, seen
    assert "/dev/pts/" in seen
    assert "37 101" in seen


def test_a_shell_opens_in_the_first_pod_of_a_job(world: EmbeddedWorld) -> None:
    types = ((r"[#$] ", "hostname; echo do''ne\n"), (r"done\r\n", "exit 5\n"))
    code, seen = on_a_terminal(world, "strato", "shell", "work", types=types)
    assert (code, "work-default0-0" in seen) == (5, True), seen
    assert run(world, "strato", "exec", "job/work", "hostname").stdout == b"work-default0-0\n"


def test_kubectl_attaches_to_a_container_and_to_a_pod_it_runs(world: EmbeddedWorld) -> None:
    _, seen = on_a_terminal(
        world, "kubectl", "attach", "-it", "term", types=((r"enter\.", "echo $((6*7)); tty; exit\n"),)
    )
    assert "42" in seen
    assert "/dev/pts/" in seen
    done = run(
        world, "kubectl", "run", "one", "-i", "--rm", "--restart=Never", "--image=strato/host", "--", "sed", "s/a/b/",
        stdin=b"banana\n",
    )  # fmt: skip
    assert b"bbnana" in done.stdout, done


@BOTH
def test_a_file_of_50_megabytes_is_copied_both_ways(world: EmbeddedWorld, client: str, tmp_path: Path) -> None:
    data = os.urandom(50_000_000)
    (tmp_path / "there").write_bytes(data)
    assert run(world, client, "cp", str(tmp_path / "there"), "web:/tmp/copied").returncode == 0
    total = run(world, client, "exec", "web", "--", "sha256sum", "/tmp/copied").stdout.split()[0].decode()
    assert total == hashlib.sha256(data).hexdigest()
    assert run(world, client, "cp", "web:/tmp/copied", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == data


def test_folders_are_copied_without_what_is_no_file(world: EmbeddedWorld, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_text("1")
    (folder / "sub" / "run.sh").write_text("2")
    (folder / "sub" / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    done = run(world, "strato", "cp", str(folder), "web:/tmp")
    assert b"left out, no file or folder: tree/link" in done.stderr
    done = run(world, "strato", "cp", "web:/tmp/tree", str(tmp_path / "back"))
    assert done.returncode == 0, done.stderr
    found = {path.relative_to(tmp_path / "back").as_posix() for path in (tmp_path / "back").rglob("*")}
    assert found == {"a", "sub", "sub/run.sh"}
    assert (tmp_path / "back" / "sub" / "run.sh").stat().st_mode & 0o777 == 0o755
    done = run(world, "strato", "cp", "web:/tmp/none", str(tmp_path / "x"))
    assert done.returncode == 1
    assert b"none" in done.stderr


def test_a_pod_cannot_make_cp_write_elsewhere(world: EmbeddedWorld, tmp_path: Path) -> None:
    """Its tar is the pod's own, and may say what it likes."""
    tar = (
        "import io, sys, tarfile; a = tarfile.open(fileobj=sys.stdout.buffer, mode='w|'); "
        "i = tarfile.TarInfo('x/../../escaped'); i.size = 2; a.addfile(i, io.BytesIO(b'no')); "
        "i = tarfile.TarInfo('/escaped'); i.size = 2; a.addfile(i, io.BytesIO(b'no')); a.close()"
    )
    script = f'#!/bin/sh\n[ "$1" = --version ] || exec python3 -c "{tar}"\n'
    path = "/tmp/bin:/usr/local/bin:/usr/bin:/bin"
    hostile = pod("hostile", "mkdir /tmp/bin; sleep 3600", env=[{"name": "PATH", "value": path}])
    world.kubectl("create", "-f", "-", stdin=json.dumps(hostile))
    world.kubectl("wait", "--for=condition=Ready", "pod/hostile", "--timeout=120s")
    command = "cat > /tmp/bin/tar; chmod +x /tmp/bin/tar"
    assert (
        run(world, "strato", "exec", "-i", "hostile", "--", "sh", "-c", command, stdin=script.encode()).returncode == 0
    )
    (tmp_path / "in").mkdir()
    done = run(world, "strato", "cp", "hostile:/tmp/x", str(tmp_path / "in" / "x"))
    assert done.returncode == 1
    assert b"leads out" in done.stderr
    assert not list(tmp_path.rglob("escaped"))
    world.kubectl("delete", "pod", "hostile", "--wait=false")


@BOTH
@pytest.mark.parametrize("target", ["web", "svc/web"])
def test_ports_carry_http(world: EmbeddedWorld, client: str, target: str) -> None:
    port = free_port()
    command = [*clients(world)[client], "port-forward", target, f"{port}:{80 if target.startswith('svc') else 8000}"]
    env = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as forward:
        assert forward.stdout is not None
        assert str(port).encode() in forward.stdout.readline()
        for _ in range(5):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/name", timeout=60) as answer:
                assert answer.read() == b"served by web\n"
        forward.send_signal(signal.SIGTERM)
        forward.communicate(timeout=60)


def test_kubectl_without_websockets_is_told_what_it_needs(world: EmbeddedWorld) -> None:
    env = {**os.environ, "KUBECONFIG": str(world.kubeconfig), "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
    done = subprocess.run(
        ["kubectl", "exec", "web", "--", "ls"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "SPDY is not spoken here" in done.stderr


def test_nothing_is_left_of_streams_when_clients_are_killed(world: EmbeddedWorld) -> None:
    env = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}
    command = ["kubectl", "exec", "web", "--", "sleep", "98765"]
    started = [subprocess.Popen(command, env=env) for _ in range(3)]
    eventually(lambda: _sleepers() == 3, what="the commands run")
    for one in started:
        one.kill()
        one.wait()
    eventually(lambda: _sleepers() == 0, what="the commands have gone with their clients")


def test_a_pod_that_is_deleted_ends_its_streams(world: EmbeddedWorld) -> None:
    world.kubectl("create", "-f", "-", stdin=json.dumps(pod("gone", "sleep 3600")))
    world.kubectl("wait", "--for=condition=Ready", "pod/gone", "--timeout=120s")
    env = {**os.environ, "KUBECONFIG": str(world.kubeconfig)}
    with subprocess.Popen(["kubectl", "exec", "gone", "--", "sleep", "98764"], env=env) as command:
        world.kubectl("delete", "pod", "gone")
        assert command.wait(timeout=60) != 0


def _sleepers() -> int:
    found = 0
    for name in Path("/proc").iterdir():
        if name.name.isdigit():
            try:
                found += (name / "cmdline").read_bytes() == b"sleep\x0098765\0"
            except OSError:
                continue
    return found
