"""Real processes: what a container is allowed by default, and what its ``securityContext`` makes of that."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog
from strato.node.sandbox import capabilities
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.sandbox import IMAGE_PATH
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import World, running, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=[True, False], ids=["own users", "the machine's users"])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with running(tmp_path / "node", FakeApi(), own_users=request.param) as found:
        yield found
    teardown(tmp_path / "node")


async def said(world: World, script: str, container: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    """Run a shell script in a pod; return the lines of its output."""
    world.sh("p", script, container=container or {}, **spec)
    status = await world.finished("p")
    assert status["phase"] == "Succeeded", (
        status.get("containerStatuses"),
        await world.log("p") if status.get("containerStatuses") else "",
    )
    return (await world.log("p")).splitlines()


async def refused(world: World, container: dict[str, Any] | None = None, **spec: Any) -> tuple[str, str]:
    world.sh("p", "true", container=container or {}, **spec)
    status = await world.finished("p")
    assert status["phase"] == "Failed"
    assert any(reason == status["reason"] for reason, _ in await world.events())
    return status["reason"], status["message"]


def security(**fields: Any) -> dict[str, Any]:
    return {"securityContext": fields}


STATUS = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid|Gid|Groups)' /proc/self/status"


def _bits(*names: str) -> str:
    return f"{sum(1 << capabilities.NUMBERS[name] for name in names):016x}"


async def privileges(world: World, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, str]:
    lines = await said(world, STATUS, container, **spec)
    return {name: " ".join(text.split()) for name, _, text in (line.partition(":") for line in lines)}


NOTHING = _bits()
DEFAULT = _bits(*capabilities.DEFAULT)


async def test_a_container_has_the_capabilities_filter_and_flags_of_a_container_runtime(world: World) -> None:
    found = await privileges(world)
    assert found == {
        "Uid": "0 0 0 0",
        "Gid": "0 0 0 0",
        "Groups": "",
        "CapInh": NOTHING,
        "CapPrm": DEFAULT,
        "CapEff": DEFAULT,
        "CapBnd": DEFAULT,
        "CapAmb": NOTHING,
        "NoNewPrivs": "1",
        "Seccomp": "2",
    }


async def test_a_user_has_no_capability_and_the_groups_that_are_named(world: World) -> None:
    pod = {"runAsUser": 1234, "runAsGroup": 77, "supplementalGroups": [5, 6], "fsGroup": 9, "runAsNonRoot": True}
    found = await privileges(world, securityContext=pod)
    assert (found["Uid"], found["Gid"], found["Groups"]) == ("1234 " * 3 + "1234", "77 77 77 77", "5 6 9")
    assert (found["CapPrm"], found["CapEff"], found["CapAmb"], found["CapBnd"]) == (NOTHING, NOTHING, NOTHING, DEFAULT)


CAPABILITIES = [
    pytest.param({"drop": ["ALL"]}, _bits(), id="all dropped"),
    pytest.param({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, _bits("NET_BIND_SERVICE"), id="one but all"),
    pytest.param({"drop": ["KILL"]}, _bits(*(capabilities.DEFAULT - {"KILL"})), id="one dropped"),
    pytest.param({"add": ["CAP_SYS_TIME"]}, _bits(*capabilities.DEFAULT, "SYS_TIME"), id="one added"),
]


@pytest.mark.parametrize(("change", "want"), CAPABILITIES)
async def test_capabilities_are_added_and_dropped(world: World, change: dict[str, Any], want: str) -> None:
    found = await privileges(world, security(capabilities=change))
    assert {found[kind] for kind in ("CapPrm", "CapEff", "CapBnd")} == {want}


async def test_a_capability_nobody_knows_is_told(world: World) -> None:
    world.sh("p", "true", container=security(capabilities={"add": ["FLY"]}))
    assert "unknown capability 'FLY'" in await waiting(world, "CreateContainerConfigError")


async def waiting(world: World, reason: str) -> str:
    """Wait until the container waits for a reason; return its message."""

    def state() -> dict[str, Any]:
        statuses = world.api.objects["/api/v1/namespaces/default/pods/p"]["status"].get("containerStatuses", [{}])
        found: dict[str, Any] = statuses[0].get("state", {}).get("waiting", {})
        return found

    await until(lambda: state().get("reason") == reason)
    return str(state()["message"])


async def test_a_privileged_container_has_everything(world: World) -> None:
    found = await privileges(world, security(privileged=True))
    with open("/proc/self/status") as file:
        everything = next(line.split()[1] for line in file if line.startswith("CapEff"))
    assert (found["CapEff"], found["NoNewPrivs"], found["Seccomp"]) == (everything, "0", "0")


async def test_privileges_can_be_gained_only_where_that_is_allowed(world: World) -> None:
    found = await privileges(world, security(allowPrivilegeEscalation=True))
    assert (found["NoNewPrivs"], found["Seccomp"], found["CapBnd"]) == ("0", "2", DEFAULT)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"runAsNonRoot": True}, "container has runAsNonRoot and image will run as root"),
        ({"runAsNonRoot": True, "runAsUser": 0}, "container's runAsUser breaks non-root policy"),
    ],
)
async def test_who_must_not_be_root_is_not(world: World, fields: dict[str, Any], message: str) -> None:
    world.sh("p", "true", container=security(**fields))
    text = await waiting(world, "CreateContainerConfigError")
    assert text.startswith(message)
    assert "p_default(" in text


async def test_a_read_only_root_has_no_place_to_write(world: World) -> None:
    script = (
        "for d in / /etc /tmp /var/tmp /root /home; do touch $d/x 2>/dev/null && echo $d; done; touch /v/x && echo v"
    )
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    volumes = [{"name": "v", "emptyDir": {}}]
    assert await said(world, script, {**security(readOnlyRootFilesystem=True), **mount}, volumes=volumes) == ["v"]


MASKED = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts", "/sys/firmware"]


async def test_kernel_files_are_masked_or_read_only(world: World) -> None:
    script = "\n".join(
        [
            *(f"[ -d {p} ] && ls -A {p}; [ -f {p} ] && head -c 1 {p}" for p in MASKED),
            "for f in /proc/sysrq-trigger /proc/sys/vm/swappiness /sys/kernel/mm/ksm/run /sys/fs/cgroup/x; do",
            "  (echo 0 > $f) 2>/dev/null && echo wrote $f",
            "done",
            "for d in /boot /lost+found; do ls -A $d 2>/dev/null; done; ls -A /root /home | grep -v :",
            "ls /dev | tr '\\n' ' '",
        ]
    )
    lines = await said(world, script)
    devices = "core fd full mqueue null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero"
    assert set(lines[-1].split()) | {"core"} == set(devices.split())
    assert [line for line in lines[:-1] if line and not line.startswith(".pyenv")] == []


async def test_a_container_sees_its_own_control_groups_only(world: World) -> None:
    if not world.node.summary().limits:
        pytest.skip("control groups cannot be written here")
    resources = {"resources": {"limits": {"memory": "64Mi"}}}
    script = (
        "cat /sys/fs/cgroup/memory*/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; cat /proc/self/cgroup"
    )
    first, *groups = await said(world, script, resources)
    assert first == str(64 << 20)
    assert not [line for line in groups if "strato-" in line]


async def test_safe_sysctls_are_set_and_others_forbidden(world: World) -> None:
    sysctls = [{"name": "net.ipv4.ip_local_port_range", "value": "2000 3000"}]
    sysctls.append({"name": "kernel.shm_rmid_forced", "value": "1"})
    script = "cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/kernel/shm_rmid_forced"
    assert await said(world, script, securityContext={"sysctls": sysctls}) == ["2000\t3000", "1"]


async def test_an_unsafe_sysctl_fails_the_pod_as_a_kubelet_does(world: World) -> None:
    sysctls = [{"name": "kernel.msgmax", "value": "65536"}]
    reason, message = await refused(world, securityContext={"sysctls": sysctls})
    assert reason == "SysctlForbidden"
    assert message == 'Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted'


async def test_app_armor_is_refused_as_by_a_kubelet_without_it(world: World) -> None:
    reason, message = await refused(world, security(appArmorProfile={"type": "RuntimeDefault"}))
    assert (reason, "AppArmor is not enabled on the host" in message) == ("AppArmor", True)


LOCALHOST = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}],
}


def localhost(name: str) -> dict[str, Any]:
    return security(seccompProfile={"type": "Localhost", "localhostProfile": name})


async def test_a_profile_of_the_operators_is_applied(world: World, tmp_path: Path) -> None:
    (tmp_path / "node" / "seccomp").mkdir()
    (tmp_path / "node" / "seccomp" / "no-dirs.json").write_text(json.dumps(LOCALHOST))
    lines = await said(world, "mkdir /tmp/x 2>&1 || true; touch /tmp/y && echo y", localhost("no-dirs.json"))
    assert lines[-1] == "y"
    assert "No space left" in lines[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.json", "cannot load seccomp profile"),
        ("../outside.json", "must be a path below"),
        ("link.json", "leads out of"),
        ("odd.json", "SCMP_ACT_FLY"),
    ],
)
async def test_a_profile_that_cannot_be_had_is_told(world: World, tmp_path: Path, name: str, message: str) -> None:
    profiles = tmp_path / "node" / "seccomp"
    profiles.mkdir()
    (tmp_path / "outside.json").write_text(json.dumps(LOCALHOST))
    (profiles / "link.json").symlink_to(tmp_path / "outside.json")
    (profiles / "odd.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_FLY"}))
    world.sh("p", "true", container=localhost(name))
    assert message in await waiting(world, "CreateContainerConfigError")


async def test_a_pod_with_users_of_its_own_is_root_of_its_files_and_of_nothing_else(
    world: World, tmp_path: Path
) -> None:
    host = tmp_path / "data"
    host.mkdir(mode=0o700)
    (host / "mine").write_text("on disk of root")
    world.api.put(
        "/api/v1/namespaces/default/secrets/sec",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sec"}, "data": {"token": "c2VjcmV0"}},
    )
    volumes = [
        {"name": "host", "hostPath": {"path": str(host)}},
        {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 0o400}},
        {"name": "mem", "emptyDir": {"medium": "Memory"}},
        {"name": "dir", "emptyDir": {}},
    ]
    mounts = {"volumeMounts": [{"name": v["name"], "mountPath": f"/{v['name']}"} for v in volumes]}
    script = (
        "cut -d' ' -f1- /proc/self/uid_map | tr -s ' '; id -u; cat /host/mine; echo; cat /sec/token; echo;"
        "for d in host mem dir tmp; do echo $d > /$d/new && stat -c %u /$d/new; done"
    )
    lines = await said(world, script, mounts, volumes=volumes, hostUsers=False)
    inside, outside, count = lines[0].split()
    assert (inside, count) == ("0", "65536")
    assert int(outside) >= 1 << 29
    assert lines[1:] == ["0", "on disk of root", "secret", "0", "0", "0", "0"]
    assert (host / "new").stat().st_uid == 0


async def test_an_image_is_written_to_by_a_pod_with_users_of_its_own(world: World, tmp_path: Path) -> None:
    root = tmp_path / "image"
    shared = [d for d in ("bin", "lib", "lib64", "usr") if os.path.isdir(f"/{d}")]
    for directory in (*shared, "etc", "home/a"):
        (root / directory).mkdir(parents=True)
    (root / "etc" / "passwd").write_text("root:x:0:0::/over/here:/bin/sh\na:x:1000:1000::/home/a:/bin/sh\n")
    (root / "etc" / "group").write_text("wheel:x:10:a\n")
    world.node.images.import_image("tiny:1", root)
    mounts = [{"name": d, "mountPath": f"/{d}", "readOnly": True} for d in shared]
    volumes = [{"name": d, "hostPath": {"path": f"/{d}"}} for d in shared]
    container = {"image": "tiny:1", "volumeMounts": mounts}
    lines = await said(
        world,
        "stat -c %u /etc/passwd; echo x > /new; stat -c %u /new; env",
        container,
        volumes=volumes,
        hostUsers=False,
    )
    assert lines[:2] == ["0", "0"]
    assert {"HOME=/over/here", f"PATH={IMAGE_PATH}"} <= set(lines)
    world.api.objects.pop("/api/v1/namespaces/default/pods/p")


async def test_containers_of_a_pod_can_share_their_processes(world: World) -> None:
    def container(name: str, script: str) -> dict[str, Any]:
        return {"name": name, "image": "strato/host", "command": ["sh", "-c", script]}

    find = "until grep -qs neighbour-of-mine /proc/[0-9]*/cmdline; do sleep 0.05; done; cat /proc/1/comm"
    world.api.create_pod(
        "p",
        "here",
        shareProcessNamespace=True,
        containers=[container("main", find), container("other", "sleep 600; : neighbour-of-mine")],
    )
    await until(lambda: "strato-pause" in _log(world))
    await world.api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=1)
    await until(lambda: world.api.phase("p") == "gone")


def _log(world: World) -> str:
    uid = world.api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
    path = Path(world.node._machine.node_paths.pod(uid).log("main", 0))
    return path.read_text() if path.exists() else ""


async def test_host_namespaces_are_shared_when_asked_for(world: World) -> None:
    namespaces = " ".join(f"/proc/self/ns/{kind}" for kind in ("pid", "ipc", "net"))
    script = f"readlink {namespaces}; test -e /proc/{os.getpid()} && echo seen"
    lines = await said(world, script, hostPID=True, hostIPC=True, hostNetwork=True)
    assert lines == [*(os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "ipc", "net")), "seen"]


async def test_a_probe_is_a_process_of_the_container(world: World) -> None:
    """Same user, groups, capabilities, filter, flags, namespaces and control groups as the container's own."""
    facts = f"({STATUS}; cat /proc/self/cgroup; readlink /proc/self/ns/[imnpu]*)"
    probe = {"exec": {"command": ["sh", "-c", f"{facts} > /v/probe.new; mv /v/probe.new /v/probe"]}, "periodSeconds": 1}
    container = {
        **security(runAsUser=1000, runAsGroup=1000, capabilities={"drop": ["ALL"]}),
        "readinessProbe": probe,
        "resources": {"limits": {"memory": "64Mi"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    script = f"until [ -e /v/probe ]; do sleep 0.05; done; {facts} > /tmp/mine; diff /tmp/mine /v/probe && echo same"
    assert await said(world, script, container, volumes=[{"name": "v", "emptyDir": {}}]) == ["same"]


async def test_a_probe_that_takes_too_long_dies_with_all_it_started(world: World) -> None:
    command = "echo $$ > /v/pid; setsid sleep 3000 & sleep 3000 & wait"
    container = {
        "livenessProbe": {"exec": {"command": ["sh", "-c", command]}, "timeoutSeconds": 1, "failureThreshold": 9},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    script = (
        "until [ -e /v/pid ]; do sleep 0.05; done; until grep -qs 3000 /proc/[0-9]*/cmdline; do sleep 0.05; done;"
        "while grep -qs '^sleep.3000' -a /proc/[0-9]*/cmdline; do sleep 0.05; done; echo gone"
    )
    assert await said(world, script, container, volumes=[{"name": "v", "emptyDir": {}}]) == ["gone"]


async def test_what_a_level_cannot_honour_refuses_the_pod_by_name(tmp_path: Path) -> None:
    async with running(tmp_path / "node", FakeApi(), level="user") as world:
        reason, message = await refused(
            world,
            security(privileged=True, capabilities={"add": ["NET_ADMIN"]}),
            hostPID=True,
            shareProcessNamespace=True,
            securityContext={
                "fsGroup": 1,
                "supplementalGroups": [2],
                "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
            },
        )
    teardown(tmp_path / "node")
    assert reason == "UnsupportedSecurityContext"
    for field in (
        "spec.securityContext.sysctls",
        "spec.securityContext.supplementalGroups",
        "spec.securityContext.fsGroup",
        "spec.hostPID",
        "spec.shareProcessNamespace",
        "spec.containers[0].securityContext.privileged",
        "spec.containers[0].securityContext.capabilities.add",
    ):
        assert field in message


async def test_an_ordinary_user_can_still_be_another_inside(tmp_path: Path) -> None:
    async with running(tmp_path / "node", FakeApi(), level="user") as world:
        found = await privileges(world, security(runAsUser=1000, runAsGroup=1001, runAsNonRoot=True))
        assert (found["Uid"], found["Gid"]) == ("1000 " * 3 + "1000", "1001 " * 3 + "1001")
        assert (found["CapEff"], found["NoNewPrivs"], found["Seccomp"]) == (NOTHING, "1", "2")
    teardown(tmp_path / "node")


async def test_hooks_run_in_the_container_and_hold_up_what_comes_after(world: World, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    tell = f"({STATUS}) > /out"
    container = {
        **security(runAsUser=0, capabilities={"drop": ["ALL"], "add": ["KILL"]}),
        "lifecycle": {
            "postStart": {"exec": {"command": ["sh", "-c", f"{tell}/post; sleep 0.2; touch /out/done"]}},
            "preStop": {"exec": {"command": ["sh", "-c", f"{tell}/pre"]}},
        },
        "readinessProbe": {"exec": {"command": ["test", "-e", "/out/done"]}},
        "volumeMounts": [{"name": "v", "mountPath": "/out"}],
    }
    world.sh(
        "p", "sleep 1000", container=container, volumes=[{"name": "v", "hostPath": {"path": str(tmp_path / "out")}}]
    )
    (tmp_path / "out").chmod(0o777)
    await until(lambda: world.api.phase("p") == "Running")
    assert (tmp_path / "out" / "done").exists()
    await world.api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=2)
    await until(lambda: world.api.phase("p") == "gone")
    texts = [(tmp_path / "out" / name).read_text() for name in ("post", "pre")]
    assert texts[0] == texts[1]
    assert f"CapEff:\t{_bits('KILL')}" in texts[0]
    assert "NoNewPrivs:\t1" in texts[0]


async def test_a_container_whose_post_start_fails_is_ended(world: World) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "exit 3"]}}}
    world.sh("p", "sleep 1000", container={"lifecycle": hook}, terminationGracePeriodSeconds=1)
    status = await world.finished("p")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert any(reason == "FailedPostStartHook" and "exited with 3" in text for reason, text in await world.events())


async def test_accounts_have_no_passwords_and_are_not_locked(world: World) -> None:
    """A daemon that looks up its account (sshd, cron) finds one, and nothing of the machine's in it."""
    lines = await said(world, "getent shadow root; stat -c %a /etc/shadow; cut -d: -f2 /etc/shadow | sort -u")
    assert lines == ["root:*:::::::", "600", "*"]


PROGRAM = """
import glob, os, sys, time
found = set()
until = time.monotonic() + float(os.environ["SECONDS"])
while True:
    for path in ("/proc/self/exe", *glob.glob("/proc/[0-9]*/exe")):
        try:
            file = os.stat(path)
            os.chmod(path, file.st_mode & 0o7777)  # the mode it has already
        except OSError:
            continue
        if f"{file.st_dev}:{file.st_ino}" == os.environ["PROGRAM"]:
            found.add(path)
    if time.monotonic() > until:
        break
print("changed", sorted(found), flush=True)
"""


def in_python(tmp_path: Path, command: list[str], seconds: float = 0) -> dict[str, Any]:
    """Return fields of a container that tries to change the file of this Python, whoever runs it."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "script").write_text("#!/proc/self/exe\n" + PROGRAM)
    (volume / "script").chmod(0o755)
    (volume / "link").symlink_to("/proc/self/exe")
    file = os.stat(sys.executable)
    facts = {"PROGRAM": f"{file.st_dev}:{file.st_ino}", "SECONDS": str(seconds), "PYTHONHOME": sys.base_prefix}
    return {
        "command": command,
        "env": [{"name": name, "value": value} for name, value in facts.items()],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }


COMMANDS = [
    pytest.param(["/proc/self/exe", "-S", "-c", PROGRAM], id="as the command"),
    pytest.param(["exe", "-S", "-c", PROGRAM], id="found by PATH"),
    pytest.param(["/v/script"], id="as the interpreter of a script"),
    pytest.param(["/v/link", "-S", "-c", PROGRAM], id="through a link"),
]


@pytest.mark.parametrize("isolation", ["root", "user"])
@pytest.mark.parametrize("command", COMMANDS)
async def test_the_program_that_becomes_a_container_is_no_file_of_the_machine(
    tmp_path: Path, isolation: str, command: list[str]
) -> None:
    container = in_python(tmp_path, command)
    if command[0] == "exe":
        container["env"].append({"name": "PATH", "value": "/proc/self"})
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "volume")}}]
    async with running(tmp_path / "node", FakeApi(), level=isolation) as world:
        assert await said(world, "", container, volumes=volumes) == ["changed []"]
    teardown(tmp_path / "node")


TRACER = security(capabilities={"add": ["SYS_PTRACE"]})


@pytest.mark.parametrize("rights", [pytest.param({}, id="no rights"), pytest.param(TRACER, id="SYS_PTRACE")])
async def test_who_enters_a_container_shows_it_no_program_of_the_machine(
    world: World, tmp_path: Path, rights: dict[str, Any]
) -> None:
    probe = {"exec": {"command": ["/proc/self/exe", "-S", "-c", "import time; time.sleep(0.2)"]}, "periodSeconds": 1}
    container = in_python(tmp_path, ["python", "-S", "-c", PROGRAM], seconds=3)
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "volume")}}]
    assert await said(world, "", {**container, **rights, "readinessProbe": probe}, volumes=volumes) == ["changed []"]


async def test_a_machine_without_programs_in_memory_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "memfd_create", refuses)
    async with running(tmp_path / "node", FakeApi()) as world:
        assert await said(world, "echo runs") == ["runs"]
        assert any("/proc/self/exe" in warning for warning in world.node.summary().warnings)
    teardown(tmp_path / "node")
